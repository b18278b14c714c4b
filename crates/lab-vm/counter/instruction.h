/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the counter knows of an instruction by its bytes. */
#ifndef PAGETOLL_INSTRUCTION_H
#define PAGETOLL_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is counted of instructions, beside their number. */
enum event { CR3_WRITE, CR4_WRITE, INVLPG, INVPCID, SERIALISING, LOCKED, EVENTS };

/* User space is below. */
#define KERNELS (1ull << 63)

/* Where execution goes after it. */
enum flow {
	/* To the next, or, where that is not 0, the target. */
	ONWARD,
	CALL,
	/* Of a call that returns. */
	RET,
	JUMP,
	/* A system call, a hypercall, an INT. */
	TRAP,
	/* From one, or from an exception. */
	TRAP_RETURN,
};

/* As in guests/lib/marks.h. */
enum mark { NO_MARK, MARK_BEGIN = 0x50540000, MARK_END = 0x50550000, MARK_STEP = 0x50560000 };

/* Of a kernel's switch between tasks: their stack pointer is stored, or loaded, in memory that is the task's own. */
enum task_switch { NO_SWITCH, SWITCH_OUT, SWITCH_IN };

struct instruction {
	enum mark mark;
	/* A set of 1 << event. */
	unsigned int events;
	enum flow flow;
	/* Where a direct branch or call goes; 0 of all others. */
	uint64_t target;
	/* A string instruction with a REP prefix, which QEMU counts once for each iteration. */
	bool repeats;
	enum task_switch task_switch;
};

/* Bytes (Intel SDM 2, 2.3.11). */
#define LONGEST_INSTRUCTION 15u

/*
 * A call over so few bytes is no call of a function: a retpoline's, which catches speculation in between, or one that fills
 * the return stack buffer; nothing returns from it.
 */
#define CALLED_OVER 16u

/* The mark that a number is. */
static inline enum mark mark_numbered(uint32_t number)
{
	return number == MARK_BEGIN || number == MARK_END || number == MARK_STEP ? number : NO_MARK;
}

typedef struct instruction reader(const uint8_t *code, size_t size, uint64_t address);

reader instruction_of_x86_64, instruction_of_arm64;

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who called what is executed: a stack of the calls, traps and exceptions since a mark, kept from what was executed last and
 * what is executed next, and the instructions that each stack has executed.
 *
 * Each task of a kernel has a stack of its own, where its switches are known (enum task_switch); a task that is new, or that
 * was there before the mark, begins with an empty one.
 *
 * A stack is known by the addresses of its calls, not by names: what is not known yet when it runs, the symbols of a guest's
 * modules, need not be known here.
 */
#ifndef PAGETOLL_STACK_H
#define PAGETOLL_STACK_H

#include <stdint.h>
#include <stdio.h>

#include "instruction.h"

/* Instructions that are executed one after the other, unless one of them faults: a translation block of QEMU's. */
struct block {
	uint64_t target;
	uint64_t next;
	enum flow flow;
	/* The last of them. */
	bool repeats;
	/* Of what was executed last: where its count is. */
	uint32_t node;
	uint32_t cell;
	uint32_t clears;
	uint32_t count;
	uint64_t addresses[];
};

/* With room for so many addresses. */
struct block *block_new(uint32_t count);

/* No code is a hypervisor's, wherever it lies. */
void stack_without_hypervisor(void);
/* `instructions` counts all that were begun so far. The code of `block` goes on. */
void stack_begin(struct block *block, uint64_t instructions);
/* Code of `next` is about to be executed. */
void stack_enter(struct block *next, uint64_t instructions);
void stack_end(uint64_t instructions);
/* The stack pointer of a task was stored here, or that of the next was loaded from here. */
void stack_switch_out(uint64_t address);
void stack_switch_in(uint64_t address, uint64_t instructions);

/* Exceptions and interrupts; system calls, hypercalls and INTs: since the last call of stack_write(). */
struct entries {
	uint64_t exceptions;
	uint64_t traps;
};

struct entries stack_entries(void);

/*
 * Writes what was counted, and forgets it: a line "node PARENT SITE" for each stack, numbered from 1 on, where 0 is the one
 * at the mark and SITE the address of the call in the parent's code; then "code NODE ADDRESS INSTRUCTIONS REPEATED" for each
 * block that a stack has executed, of which REPEATED are iterations of REP instructions after the first; then, where its last
 * instruction is a direct jump, " TARGET". Addresses are hexadecimal.
 */
void stack_write(FILE *out);

#endif

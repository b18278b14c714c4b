/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Encodings: Arm Architecture Reference Manual for A-profile (DDI 0487), C4.1. */
#include <string.h>

#include "instruction.h"

/* Whether the bits of a mask are these. */
static bool is(uint32_t word, uint32_t mask, uint32_t bits)
{
	return (word & mask) == bits;
}

static enum mark mark_of(uint32_t word)
{
	/* movz xzr, #imm16, lsl #16 */
	return is(word, 0xffe0001f, 0xd2a0001f) ? mark_numbered((word >> 5 & 0xffff) << 16) : NO_MARK;
}

/* Writes of a read-modify-write: store-exclusives and CASP; CAS; LDADD, SWP and the like, but for LDAPR, which only reads. */
static bool is_atomic(uint32_t word)
{
	return is(word, 0x3fc00000, 0x08000000) || is(word, 0x3fa00000, 0x08a00000) ||
	       (is(word, 0x3f200c00, 0x38200000) && !is(word, 0x3fe0fc00, 0x38a0c000));
}

static unsigned int events_of(uint32_t word)
{
	/* ISB and ERET, which are context synchronization events. */
	bool serialises = is(word, 0xfffff0ff, 0xd50330df) || word == 0xd69f03e0;

	return serialises << SERIALISING | is_atomic(word) << LOCKED;
}

static enum flow flow_of(uint32_t word)
{
	if (is(word, 0xfc000000, 0x94000000) || is(word, 0xfffffc1f, 0xd63f0000)) /* BL, BLR */
		return CALL;
	if (is(word, 0xfffffc1f, 0xd61f0000)) /* BR */
		return JUMP;
	if (is(word, 0xfffffc1f, 0xd65f0000)) /* RET */
		return RET;
	if (word == 0xd69f03e0) /* ERET */
		return TRAP_RETURN;
	/* SVC, HVC, SMC; BRK */
	if ((is(word, 0xffe0001c, 0xd4000000) && (word & 3)) || is(word, 0xffe0001f, 0xd4200000))
		return TRAP;
	return ONWARD;
}

/* A field of so many bits from this one on, in words. */
static int64_t field(uint32_t word, unsigned int bits, unsigned int first)
{
	uint64_t highest = (uint64_t)(word >> first) << (64 - bits);

	return ((int64_t)highest >> (64 - bits)) * 4;
}

static uint64_t target_of(uint32_t word, uint64_t address)
{
	if (is(word, 0x7c000000, 0x14000000)) /* B, BL */
		return address + field(word, 26, 0);
	if (is(word, 0xff000000, 0x54000000) || is(word, 0x7e000000, 0x34000000)) /* B.cond; CBZ, CBNZ */
		return address + field(word, 19, 5);
	if (is(word, 0x7e000000, 0x36000000)) /* TBZ, TBNZ */
		return address + field(word, 14, 5);
	return 0;
}

/* cpu_switch_to() in arch/arm64/kernel/entry.S: str lr, [x8]; ldr lr, [x8]; of no other function of the kernel. */
static enum task_switch task_switch_of(uint32_t word, uint64_t address)
{
	if (address < KERNELS)
		return NO_SWITCH;
	return word == 0xf900011e ? SWITCH_OUT : word == 0xf940011e ? SWITCH_IN : NO_SWITCH;
}

struct instruction instruction_of_arm64(const uint8_t *code, size_t size, uint64_t address)
{
	struct instruction insn = { NO_MARK };
	uint32_t word;

	/* A program of 32 bits is of T32 and A32. */
	if (size != sizeof(word))
		return insn;
	memcpy(&word, code, sizeof(word));
	insn.mark = mark_of(word);
	insn.events = events_of(word);
	insn.flow = flow_of(word);
	insn.target = target_of(word, address);
	insn.task_switch = task_switch_of(word, address);
	if (insn.flow == CALL && insn.target - (address + size) < CALLED_OVER)
		insn.flow = ONWARD;
	return insn;
}

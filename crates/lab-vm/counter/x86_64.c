/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opcodes: Intel SDM 2. Serialising ones: SDM 3A 8.3. */
#include <string.h>

#include "instruction.h"

/* The bytes after the prefixes. */
struct opcode {
	const uint8_t *code;
	size_t size;
	bool operand_size;
	/* LOCK, or the DS that Linux writes over it where it has one CPU (alternative.c, alternatives_smp_unlock). */
	bool lock;
	bool repeat;
	bool rex_r;
};

static bool is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0x67 || (byte & 0xe7) == 0x26 || byte == 0x64 || byte == 0x65 || byte == 0xf0 ||
	       byte == 0xf2 || byte == 0xf3;
}

static struct opcode without_prefixes(const uint8_t *code, size_t size)
{
	struct opcode op = { .code = code, .size = size };

	for (; op.size && is_prefix(*op.code); op.code++, op.size--) {
		op.operand_size |= *op.code == 0x66;
		op.lock |= *op.code == 0xf0 || *op.code == 0x3e;
		op.repeat |= *op.code == 0xf2 || *op.code == 0xf3;
	}
	if (op.size && (*op.code & 0xf0) == 0x40) {
		op.rex_r = *op.code & 4;
		op.code++;
		op.size--;
	}
	return op;
}

static enum mark mark_of(const uint8_t *code, size_t size)
{
	uint32_t mark;

	/* nopl disp32(%rax). */
	if (size != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return NO_MARK;
	memcpy(&mark, code + 3, sizeof(mark));
	return mark_numbered(mark);
}

/* Where Linux lies: Documentation/arch/x86/x86_64/mm.rst. */
#define KERNEL_TEXT 0xffffffff80000000u

/* __switch_to_asm() in arch/x86/entry/entry_64.S: mov %rsp,TASK_threadsp(%rdi); mov TASK_threadsp(%rsi),%rsp. */
static enum task_switch task_switch_of(const uint8_t *code, size_t size, uint64_t address)
{
	if (size != 7 || address < KERNEL_TEXT || code[0] != 0x48)
		return NO_SWITCH;
	if (code[1] == 0x89 && code[2] == 0xa7)
		return SWITCH_OUT;
	return code[1] == 0x8b && code[2] == 0xa6 ? SWITCH_IN : NO_SWITCH;
}

static unsigned int reg_of(uint8_t modrm)
{
	return modrm >> 3 & 7;
}

static bool is_memory(uint8_t modrm)
{
	return modrm >> 6 != 3;
}

#define SERIALISES (1u << SERIALISING)

static unsigned int system_events(const struct opcode *op)
{
	uint8_t second = op->code[1], modrm = op->size > 2 ? op->code[2] : 0;

	switch (second) {
	case 0x00: /* LLDT, LTR */
		return reg_of(modrm) == 2 || reg_of(modrm) == 3 ? SERIALISES : 0;
	case 0x01:
		if (modrm == 0xe8) /* SERIALIZE */
			return SERIALISES;
		if (!is_memory(modrm))
			return 0;
		if (reg_of(modrm) == 7)
			return 1u << INVLPG | SERIALISES;
		return reg_of(modrm) == 2 || reg_of(modrm) == 3 ? SERIALISES : 0; /* LGDT, LIDT */
	case 0x08: /* INVD */
	case 0x09: /* WBINVD */
	case 0x23: /* MOV DRn */
	case 0x30: /* WRMSR */
	case 0xa2: /* CPUID */
		return SERIALISES;
	case 0x22: /* MOV CRn; with REX.R it would be CR8 and above. */
		if (op->rex_r)
			return 0;
		return SERIALISES | (reg_of(modrm) == 3) << CR3_WRITE | (reg_of(modrm) == 4) << CR4_WRITE;
	case 0x38:
		return op->operand_size && modrm == 0x82 ? 1u << INVPCID | SERIALISES : 0;
	default:
		return 0;
	}
}

/* Of the operand in memory, where there is one. LOCK is undefined before all others. */
static bool is_lockable(const uint8_t *code, uint8_t modrm)
{
	switch (code[0]) {
	case 0x80: /* ADD, OR, ADC, SBB, AND, SUB, XOR; not CMP */
	case 0x81:
	case 0x83:
		return reg_of(modrm) != 7;
	case 0xf6: /* NOT, NEG */
	case 0xf7:
		return reg_of(modrm) == 2 || reg_of(modrm) == 3;
	case 0xfe: /* INC, DEC */
	case 0xff:
		return reg_of(modrm) <= 1;
	case 0x0f:
		break;
	default: /* As the first, of a register. */
		return code[0] < 0x38 && (code[0] & 6) == 0;
	}
	switch (code[1]) {
	case 0xab: /* BTS, BTR, BTC */
	case 0xb3:
	case 0xbb:
	case 0xb0: /* CMPXCHG */
	case 0xb1:
	case 0xc0: /* XADD */
	case 0xc1:
		return true;
	case 0xba: /* BTS, BTR, BTC; not BT */
		return reg_of(modrm) >= 5;
	case 0xc7: /* CMPXCHG8B, CMPXCHG16B */
		return reg_of(modrm) == 1;
	default:
		return false;
	}
}

static bool is_locked(const struct opcode *op)
{
	size_t at = op->code[0] == 0x0f ? 2 : 1;
	uint8_t modrm = op->size > at ? op->code[at] : 0xff;

	if (!is_memory(modrm))
		return false;
	if (op->code[0] == 0x86 || op->code[0] == 0x87) /* XCHG, which locks by itself. */
		return true;
	return op->lock && is_lockable(op->code, modrm);
}

static unsigned int events_of(const struct opcode *op)
{
	unsigned int locked = is_locked(op) << LOCKED;

	if (op->code[0] == 0xcf) /* IRET */
		return SERIALISES;
	return locked | (op->code[0] == 0x0f && op->size > 1 ? system_events(op) : 0);
}

static bool is_string(uint8_t opcode)
{
	return (opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
	       (opcode >= 0xaa && opcode <= 0xaf);
}

static int64_t displacement(const uint8_t *end, size_t size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)end[-1];
	memcpy(&wide, end - sizeof(wide), sizeof(wide));
	return wide;
}

static enum flow flow_of(const struct opcode *op, size_t *displaced)
{
	uint8_t first = op->code[0], second = op->size > 1 ? op->code[1] : 0;

	*displaced = 0;
	switch (first) {
	case 0xe8:
		*displaced = 4;
		return CALL;
	case 0xe9:
		*displaced = 4;
		return ONWARD;
	case 0xeb:
	case 0xe0 ... 0xe3:
	case 0x70 ... 0x7f:
		*displaced = 1;
		return ONWARD;
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
		return RET;
	case 0xcc:
	case 0xcd:
		return TRAP;
	case 0xcf:
		return TRAP_RETURN;
	case 0xff:
		return reg_of(second) == 2 || reg_of(second) == 3 ? CALL :
		       reg_of(second) == 4 || reg_of(second) == 5 ? JUMP :
								    ONWARD;
	case 0x0f:
		break;
	default:
		return ONWARD;
	}
	switch (second) {
	case 0x05: /* SYSCALL */
	case 0x34: /* SYSENTER */
		return TRAP;
	case 0x07: /* SYSRET */
	case 0x35: /* SYSEXIT */
		return TRAP_RETURN;
	case 0x80 ... 0x8f:
		*displaced = 4;
		return ONWARD;
	default:
		return ONWARD;
	}
}

struct instruction instruction_of_x86_64(const uint8_t *code, size_t size, uint64_t address)
{
	struct opcode op = without_prefixes(code, size);
	struct instruction insn = { .mark = mark_of(code, size), .task_switch = task_switch_of(code, size, address) };
	size_t displaced;

	if (!op.size)
		return insn;
	insn.events = events_of(&op);
	insn.repeats = op.repeat && is_string(op.code[0]);
	insn.flow = flow_of(&op, &displaced);
	if (displaced)
		insn.target = address + size + displacement(code + size, displaced);
	if (insn.flow == CALL && insn.target - (address + size) < CALLED_OVER)
		insn.flow = ONWARD;
	return insn;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The processor's part of machine.c: EL1 without translation, left by stores to where no memory is, which KVM hands to user
 * space as MMIO, and by HVC.
 */
#include "../abi/kvm_arm64.h"

#define CODE_GPA 0ul
/* Where its programs begin in the code: after the exception vectors, which lie where VBAR_EL1 is at reset. */
#define FIRST_PROGRAM 0x800

#define MMIO_END 0x10000000ul
#define MMIO_PORT 0x10000004ul

/* x19: the page, x20: the count, x21: the sum; an HVC may change x0 to x3. */
__asm__(".pushsection .rodata\n"
	".balign 2048\n"
	".global programs\n"
	"programs:\n"
	EXITING_VECTORS
	/* PROGRAM_TOUCH */
	"1: str w20, [x19, #4]\n"
	"   ldr w4, [x19]\n"
	"   add w21, w21, w4\n"
	"   add x19, x19, #4096\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_READ */
	"   ldr w21, [x19]\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_JUMP */
	"   br x19\n"
	".balign 64\n"
	/* PROGRAM_OUTS: there is no instruction that lets KVM read the area. */
	"   b .\n"
	".balign 64\n"
	/* PROGRAM_OUT_ANSWERED: no function of the SMC calling convention has this number. */
	"1: mov w0, #0\n"
	"   hvc #0\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_OUT */
	"   mov x9, #0x10000000\n"
	"1: str w9, [x9, #4]\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_COUNT */
	"1: ldr w4, [x19, #4]\n"
	"   add w4, w4, #1\n"
	"   str w4, [x19, #4]\n"
	"   add x19, x19, #4096\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_READ_CHUNKS */
	"1: ldr w4, [x19, x23]\n"
	"   add w21, w21, w4\n"
	"   add x19, x19, #4096\n"
	"   and x9, x19, x22\n"
	"   add x19, x19, x9\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_TOUCH_CHUNKS */
	"1: add x10, x19, x23\n"
	"   str w20, [x10, #4]\n"
	"   ldr w4, [x10]\n"
	"   add w21, w21, w4\n"
	"   add x19, x19, #4096\n"
	"   and x9, x19, x22\n"
	"   add x19, x19, x9\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_VISIT */
	"1: ldr w4, [x19]\n"
	"   and w9, w4, #0xfffffffe\n"
	"   tbz w4, #0, 2f\n"
	"   str w20, [x9, #4]\n"
	"2: ldr w4, [x9]\n"
	"   add w21, w21, w4\n"
	"   add x19, x19, #4\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	/* PROGRAM_HASH */
	"   mov w9, #31\n"
	"1: ldr w4, [x19], #4\n"
	"   madd w21, w21, w9, w4\n"
	"   subs w20, w20, #1\n"
	"   b.ne 1b\n"
	"   mov x9, #0x10000000\n"
	"   str w9, [x9]\n"
	".balign 64\n"
	".global programs_end\n"
	"programs_end:\n"
	".popsection\n");

static void set_up_vcpu(const struct machine *machine)
{
	init_vcpu(machine->vm, machine->vcpu);
}

/* The cheapest exit that KVM answers is an HVC, for which there is nothing to set up. */
static void answer_port(struct machine *machine)
{
	machine->answered = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (machine->answered < 0)
		fail("eventfd");
}

static void set_register(const struct machine *machine, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	kvm_call(machine->vcpu, KVM_SET_ONE_REG, &reg, "KVM_SET_ONE_REG");
}

static uint64_t get_register(const struct machine *machine, uint64_t id)
{
	uint64_t value = 0;
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	kvm_call(machine->vcpu, KVM_GET_ONE_REG, &reg, "KVM_GET_ONE_REG");
	return value;
}

/* The store by which a program left the guest is completed at the next entry, which adds to the program counter. */
static void complete_store(const struct machine *machine)
{
	if (machine->run->exit_reason != KVM_EXIT_MMIO)
		return;
	machine->run->immediate_exit = 1;
	if (ioctl(machine->vcpu, KVM_RUN, NULL) >= 0 || errno != EINTR)
		fail("complete the store that left the guest");
	machine->run->immediate_exit = 0;
}

static void set_registers(const struct machine *machine, uint64_t at, uint32_t gpa, uint32_t count)
{
	complete_store(machine);
	set_register(machine, CORE(regs.pc), at);
	set_register(machine, CORE(regs.regs[19]), gpa);
	set_register(machine, CORE(regs.regs[20]), count);
	set_register(machine, CORE(regs.regs[21]), 0);
}

/* Bytes of a chunk, and from the area's start to the first. */
static void set_chunks(const struct machine *machine, uint32_t chunk, uint32_t offset)
{
	set_register(machine, CORE(regs.regs[22]), chunk);
	set_register(machine, CORE(regs.regs[23]), offset);
}

static enum stop why_stopped(const struct kvm_run *run)
{
	if (run->exit_reason != KVM_EXIT_MMIO)
		return STOP_OTHER;
	switch (run->mmio.phys_addr) {
	case MMIO_END:
		return STOP_END;
	case MMIO_PORT:
		return STOP_PORT;
	default:
		return STOP_OTHER;
	}
}

static uint64_t touched_gpa(const struct machine *machine)
{
	return get_register(machine, CORE(regs.regs[19]));
}

static uint64_t visited_gpa(const struct machine *machine)
{
	return get_register(machine, CORE(regs.regs[9]));
}

static uint32_t added(const struct machine *machine)
{
	return get_register(machine, CORE(regs.regs[21]));
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The processor's part of guest.c: EL1 without translation. It is done when it stores to where no case has memory, which
 * KVM hands to user space as MMIO.
 */
#include "../abi/kvm_arm64.h"

#define CODE_GPA 0ul
#define DONE_GPA 0x10000000ul

/* x0: the address, x1: the word, x2: DONE_GPA. Exception vectors come first, where VBAR_EL1 is at reset. */
__asm__(".pushsection .rodata\n"
	".balign 2048\n"
	".global access_begin, access_read, access_write, access_end\n"
	"access_begin:\n"
	EXITING_VECTORS
	"access_read:\n"
	"   ldr x1, [x0]\n"
	"   str w2, [x2]\n"
	"access_write:\n"
	"   str x1, [x0]\n"
	"   str w2, [x2]\n"
	"access_end:\n"
	".popsection\n");

static void write_tables(char *own)
{
	(void)own;
}

static void set_up_vcpu(const struct vcpu *vcpu)
{
	init_vcpu(vm, vcpu->fd);
}

static void set_register(const struct vcpu *vcpu, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	kvm_call(vcpu->fd, KVM_SET_ONE_REG, &reg, "KVM_SET_ONE_REG");
}

/*
 * KVM steps over an instruction that it handed to user space when the vCPU runs next (kvm_handle_mmio_return()), which
 * would be one of the new program's.
 */
static void finish_mmio(const struct vcpu *vcpu)
{
	vcpu->run->immediate_exit = 1;
	if (ioctl(vcpu->fd, KVM_RUN, NULL) == 0 || errno != EINTR)
		fail("KVM_RUN with immediate_exit");
	vcpu->run->immediate_exit = 0;
}

static void begin_access(const struct vcpu *vcpu, uint64_t program, uint64_t gpa, uint64_t word)
{
	if (vcpu->run->exit_reason == KVM_EXIT_MMIO)
		finish_mmio(vcpu);
	set_register(vcpu, CORE(regs.pc), program);
	set_register(vcpu, CORE(regs.regs[0]), gpa);
	set_register(vcpu, CORE(regs.regs[1]), word);
	set_register(vcpu, CORE(regs.regs[2]), DONE_GPA);
}

/* KVM resets the reason of an exit by itself, and needs that of MMIO to finish it. */
static void forget_exit(struct kvm_run *run)
{
	(void)run;
}

static bool is_done(const struct kvm_run *run)
{
	return run->exit_reason == KVM_EXIT_MMIO && run->mmio.phys_addr == DONE_GPA;
}

static uint64_t accessed_word(const struct vcpu *vcpu)
{
	uint64_t value = 0;
	struct kvm_one_reg reg = { .id = CORE(regs.regs[1]), .addr = (uintptr_t)&value };

	kvm_call(vcpu->fd, KVM_GET_ONE_REG, &reg, "KVM_GET_ONE_REG");
	return value;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* A vCPU of arm64: its vectors and its registers. */
#ifndef PAGETOLL_KVM_ARM64_H
#define PAGETOLL_KVM_ARM64_H

#include <linux/kvm.h>
#include <stddef.h>

#include "kvm_call.h"

/* Exception vectors, each an exit to a word 8 bytes behind 0x10000000: no program stores there. */
#define EXITING_VECTORS                 \
	".rept 16\n"                    \
	"   mov x9, #0x10000000\n"      \
	"   str w9, [x9, #8]\n"         \
	"   b .\n"                      \
	".balign 128\n"                 \
	".endr\n"

#define CORE(field) (KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(field))

static void init_vcpu(int vm, int vcpu)
{
	struct kvm_vcpu_init init;

	kvm_call(vm, KVM_ARM_PREFERRED_TARGET, &init, "KVM_ARM_PREFERRED_TARGET");
	kvm_call(vcpu, KVM_ARM_VCPU_INIT, &init, "KVM_ARM_VCPU_INIT");
}

#endif

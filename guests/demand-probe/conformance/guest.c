// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../abi/kvm_abi.h"
#include "../abi/kvm_call.h"

/* GUEST_SLOT and GUEST_BYTES of crates/conformance/src/kvm/case.rs. */
#define OWN_SLOT 1000
#define OWN_SIZE (8ul << 20)

extern const char access_begin[], access_read[], access_write[], access_end[];

static int kvm = -1, vm = -1;

#ifdef __aarch64__
#include "arm64.h"
#else
#include "x86_64.h"
#endif

static uint64_t gpa_of(const char *program)
{
	return CODE_GPA + (program - access_begin);
}

int guest_open_empty(void)
{
	if (kvm < 0)
		kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fail("open /dev/kvm");
	return kvm_call(kvm, KVM_CREATE_VM, NULL, "KVM_CREATE_VM");
}

void guest_open(void)
{
	char *own = mmap(NULL, OWN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {
		.slot = OWN_SLOT, .memory_size = OWN_SIZE, .userspace_addr = (uintptr_t)own,
	};

	if (own == MAP_FAILED)
		fail("map the guest's own memory");
	write_tables(own);
	memcpy(own + CODE_GPA, access_begin, access_end - access_begin);
	vm = guest_open_empty();
	kvm_call(vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION of the guest's own");
}

int guest_vm(void)
{
	return vm;
}

struct vcpu guest_add_vcpu(unsigned int number)
{
	int size = kvm_call(kvm, KVM_GET_VCPU_MMAP_SIZE, NULL, "KVM_GET_VCPU_MMAP_SIZE");
	struct vcpu vcpu = { .fd = ioctl(vm, KVM_CREATE_VCPU, (unsigned long)number) };

	if (vcpu.fd < 0)
		fail("KVM_CREATE_VCPU");
	vcpu.run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu.fd, 0);
	if (vcpu.run == MAP_FAILED)
		fail("map a vCPU");
	set_up_vcpu(&vcpu);
	return vcpu;
}

static struct answer mmio(const struct kvm_run *run)
{
	uint64_t word;

	if (!run->mmio.is_write)
		return (struct answer){ ANSWER_MMIO_READ, { run->mmio.phys_addr, run->mmio.len } };
	if (run->mmio.len != sizeof(word))
		return (struct answer){ ANSWER_OTHER, { 0, run->exit_reason } };
	memcpy(&word, run->mmio.data, sizeof(word));
	return (struct answer){ ANSWER_MMIO_WRITE, { run->mmio.phys_addr, word } };
}

static struct answer failed(const struct kvm_run *run, int error)
{
	const struct abi_memory_fault *fault = (const void *)&run->hw;

	if (error == EFAULT && run->exit_reason == ABI_EXIT_MEMORY_FAULT)
		return (struct answer){ ANSWER_MEMORY_FAULT, { fault->gpa, fault->size, fault->flags } };
	if (error == EFAULT && run->exit_reason == KVM_EXIT_UNKNOWN)
		return (struct answer){ ANSWER_RUN_FAILED };
	return (struct answer){ ANSWER_OTHER, { error, run->exit_reason } };
}

static struct answer enter(const struct vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	forget_exit(run);
	if (ioctl(vcpu->fd, KVM_RUN, NULL) < 0)
		return failed(run, errno);
	if (is_done(run))
		return (struct answer){ ANSWER_WORD, { accessed_word(vcpu) } };
	if (run->exit_reason == KVM_EXIT_MMIO)
		return mmio(run);
	return (struct answer){ ANSWER_OTHER, { 0, run->exit_reason } };
}

struct answer vcpu_read(const struct vcpu *vcpu, uint64_t gpa)
{
	begin_access(vcpu, gpa_of(access_read), gpa, 0);
	return enter(vcpu);
}

struct answer vcpu_write(const struct vcpu *vcpu, uint64_t gpa, uint64_t word)
{
	begin_access(vcpu, gpa_of(access_write), gpa, word);
	return enter(vcpu);
}

struct answer vcpu_run(const struct vcpu *vcpu, uint64_t word)
{
	struct kvm_run *run = vcpu->run;

	if (run->exit_reason == KVM_EXIT_MMIO)
		memcpy(run->mmio.data, &word, sizeof(word));
	return enter(vcpu);
}

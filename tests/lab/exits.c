/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A guest that leaves KVM for user space as often as the argument says. */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	/* out %al, $0x10; jmp to it */
	static const unsigned char code[] = { 0xe6, 0x10, 0xeb, 0xfc };
	int kvm = open("/dev/kvm", O_RDWR), vm, vcpu;
	void *memory = mmap(0, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region slot = { .memory_size = 0x1000, .userspace_addr = (unsigned long)memory };
	struct kvm_sregs sregs;
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_run *run;

	if (kvm < 0)
		return 1;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	memcpy(memory, code, sizeof(code));
	ioctl(vm, KVM_SET_USER_MEMORY_REGION, &slot);
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = mmap(0, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	ioctl(vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = sregs.cs.selector = 0;
	ioctl(vcpu, KVM_SET_SREGS, &sregs);
	ioctl(vcpu, KVM_SET_REGS, &regs);
	for (long i = atol(argv[1]); i; i--)
		if (ioctl(vcpu, KVM_RUN, 0) || run->exit_reason != KVM_EXIT_IO)
			return 2;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of KVM's interface that older headers lack: include/uapi/linux/kvm.h of Linux 7.3, exit-on-missing of
 * fixes/kvm-exit-on-missing, and the bitmap of fixes/kvm-userfault.
 */
#ifndef PAGETOLL_KVM_ABI_H
#define PAGETOLL_KVM_ABI_H

#include <linux/kvm.h>
#include <stdint.h>

#define ABI_EXIT_MEMORY_FAULT 39
#define ABI_CAP_USER_MEMORY2 231
#define ABI_CAP_PRE_FAULT_MEMORY 236
#define ABI_CAP_EXIT_ON_MISSING 252
#define ABI_CAP_USERFAULT 253

#define ABI_MEM_READONLY (1u << 1)
#define ABI_MEM_GUEST_MEMFD (1u << 2)
/* One bit for two interfaces, neither of which is in Linux. */
#define ABI_MEM_EXIT_ON_MISSING (1u << 3)
#define ABI_MEM_USERFAULT (1u << 3)

#define ABI_FAULT_READ (1ull << 0)
#define ABI_FAULT_WRITE (1ull << 1)
#define ABI_FAULT_EXEC (1ull << 2)

#define ABI_GMEM_MMAP (1ull << 0)
#define ABI_GMEM_INIT_SHARED (1ull << 1)

/* struct kvm_userspace_memory_region2 */
struct abi_region {
	uint32_t slot, flags;
	uint64_t guest_phys_addr, memory_size, userspace_addr, guest_memfd_offset;
	uint32_t guest_memfd, pad1;
	uint64_t userfault_bitmap;
	uint64_t pad2[13];
};

/* kvm_run.memory_fault */
struct abi_memory_fault {
	uint64_t flags, gpa, size;
};

/* struct kvm_create_guest_memfd */
struct abi_create_memfd {
	uint64_t size, flags, reserved[6];
};

/* struct kvm_pre_fault_memory: gpa and size are what is left to do when the call returns */
struct abi_pre_fault {
	uint64_t gpa, size, flags, padding[5];
};

#define ABI_PRE_FAULT_MEMORY _IOWR(KVMIO, 0xd5, struct abi_pre_fault)
#define ABI_SET_USER_MEMORY_REGION2 _IOW(KVMIO, 0x49, struct abi_region)
#define ABI_CREATE_GUEST_MEMFD _IOWR(KVMIO, 0xd4, struct abi_create_memfd)

#endif

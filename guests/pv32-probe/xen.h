/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Xen's ABI for 32-bit PV guests, as far as it is used here: xen/include/public/xen.h, arch-x86/xen-x86_32.h, sched.h,
 * vcpu.h, physdev.h, version.h and errno.h, 4.17.
 */
#ifndef PAGETOLL_PV32_XEN_H
#define PAGETOLL_PV32_XEN_H

#include <stddef.h>
#include <stdint.h>

#define VIRT_BASE 0xc0000000u
#define PAGE_SIZE 4096u

#define DOMID_SELF 0x7ff0u
#define DOMID_IO 0x7ff1u

#define HYPERVISOR_MMU_UPDATE 1
#define HYPERVISOR_UPDATE_VA_MAPPING 14
#define HYPERVISOR_XEN_VERSION 17
#define HYPERVISOR_CONSOLE_IO 18
#define HYPERVISOR_VCPU_OP 24
#define HYPERVISOR_MMUEXT_OP 26
#define HYPERVISOR_SCHED_OP 29
#define HYPERVISOR_PHYSDEV_OP 33

#define MMU_NORMAL_PT_UPDATE 0
#define MMU_PT_UPDATE_PRESERVE_AD 2
#define MMUEXT_TLB_FLUSH_LOCAL 6
#define UVMF_INVLPG_LOCAL 2
#define XENVER_VERSION 0
#define XENVER_EXTRAVERSION 1
#define VCPUOP_STOP_PERIODIC_TIMER 7
#define SCHEDOP_SHUTDOWN 2
#define PHYSDEVOP_SET_IOPL 6

#define ENOMEM 12
#define ENODEV 19
#define EINVAL 22
#define ENOSPC 28

struct start_info {
	char magic[32];
	uint32_t nr_pages;
	uint32_t shared_info;
	uint32_t flags;
	uint32_t store_mfn;
	uint32_t store_evtchn;
	uint32_t console[2];
	uint32_t pt_base;
	uint32_t nr_pt_frames;
	uint32_t mfn_list;
	uint32_t mod_start;
	uint32_t mod_len;
};

struct mmu_update {
	uint64_t ptr;
	uint64_t val;
};

struct mmuext_op {
	uint32_t cmd;
	uint32_t arg1;
	uint32_t arg2;
};

extern char hypercall_page[];

/* Arguments go in ebx, ecx, edx, esi; each register may come back changed. */
static inline long hypercall4(unsigned int number, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	long ret;

	__asm__ volatile("call *%[entry]"
			 : "=a"(ret), "+b"(a), "+c"(b), "+d"(c), "+S"(d)
			 : [entry] "0"(hypercall_page + 32 * number)
			 : "memory");
	return ret;
}

static inline long hypercall2(unsigned int number, uint32_t a, uint32_t b)
{
	long ret;

	__asm__ volatile("call *%[entry]"
			 : "=a"(ret), "+b"(a), "+c"(b)
			 : [entry] "0"(hypercall_page + 32 * number)
			 : "memory");
	return ret;
}

static inline long xen_mmu_update(const struct mmu_update *updates, unsigned int count, uint32_t domain)
{
	return hypercall4(HYPERVISOR_MMU_UPDATE, (uint32_t)updates, count, 0, domain);
}

static inline long xen_update_va_mapping(uint32_t address, uint64_t entry, uint32_t flags)
{
	return hypercall4(HYPERVISOR_UPDATE_VA_MAPPING, address, (uint32_t)entry, (uint32_t)(entry >> 32), flags);
}

/* XENVER_VERSION is the empty hypercall. */
static inline long xen_version(uint32_t command, void *argument)
{
	return hypercall2(HYPERVISOR_XEN_VERSION, command, (uint32_t)argument);
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ioctls of /dev/xen-probe, for the kernel module and for init.
 *
 * Addresses are user addresses in the caller's own mm. A range starts on a 2 MiB boundary, so that each page table holds
 * 512 consecutive pages of it and a batch never spans two tables. `mark` is the id of the marks around each timed
 * stretch, or NO_MARK (marks.h).
 */
#ifndef PAGETOLL_XEN_PROBE_ABI_H
#define PAGETOLL_XEN_PROBE_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#include "marks.h"

#define XEN_PROBE_DEVICE "/dev/xen-probe"

/* Entries of one page table, and so the largest batch. */
#define XEN_PROBE_MAX_BATCH 512

/*
 * The ways to get and clear entries: number, name in orders, function of the module, and the feature of Xen that it
 * needs. The first two are baselines, which clear nothing: read every entry; read every entry, then xen_version(0).
 */
#define XEN_PROBE_EACH_MECHANISM(entry)                                                      \
	entry(READ, "read", clear_read, ANY_XEN)                                             \
	entry(EMPTY_HYPERCALL, "empty-hypercall", clear_empty_hypercall, ANY_XEN)            \
	entry(EMULATE, "emulate", clear_emulate, ANY_XEN)                                    \
	entry(SET_PTE, "set-pte", clear_set_pte, ANY_XEN)                                    \
	entry(UPDATE_VA, "update-va", clear_update_va, ANY_XEN)                              \
	entry(LAZY, "lazy", clear_lazy, ANY_XEN)                                             \
	entry(MMU_UPDATE, "mmu-update", clear_mmu_update, ANY_XEN)                           \
	entry(PRESERVE_AD, "preserve-ad", clear_preserve_ad, XENFEAT_mmu_pt_update_preserve_ad)

enum xen_probe_mechanism {
#define XEN_PROBE_NUMBER(number, name, function, feature) XEN_PROBE_##number,
	XEN_PROBE_EACH_MECHANISM(XEN_PROBE_NUMBER)
#undef XEN_PROBE_NUMBER
	XEN_PROBE_MECHANISMS
};

/* What was wrong with the entries that a mechanism returned or left behind; 0 everywhere is right. */
struct xen_probe_faults {
	__u64 lost_accessed; /* A was set in the entry, not in the returned value */
	__u64 lost_dirty;    /* D was set in the entry, not in the returned value */
	__u64 wrong_frame;   /* returned another frame */
	__u64 wrong_flags;   /* returned other flags, A and D apart, or an A or D that was not there */
	__u64 not_none;      /* an entry that pte_none() does not accept was left behind */
	__u64 refused;       /* hypercalls that Xen refused */
};

/*
 * Gives page i of a range class i mod 4 (neither bit, A, both, D), clears all entries by one mechanism, checks, and puts
 * them back as they were.
 */
struct xen_probe_clear {
	__u64 addr;
	__u32 pages;
	__u32 mechanism;
	__u32 batch;
	__u32 mark;
	/* Answers. */
	__u64 instructions; /* TSC ticks of the timed stretches: instructions under QEMU's -icount shift=0 */
	__u64 classes[4];   /* entries found with neither bit, A alone, D alone, both */
	struct xen_probe_faults faults;
};

/*
 * The race: the caller clears the tables of the range again and again by one mechanism while another thread sits
 * in XEN_PROBE_DIRTY and reads and writes through the user mapping. Ends when `dirtied` pages were written or after
 * `limit_ms`. Needs two vCPUs and a thread that already waits in XEN_PROBE_DIRTY.
 */
struct xen_probe_race {
	__u64 addr;
	__u32 pages;
	__u32 mechanism;
	__u32 batch;
	__u32 limit_ms;
	__u64 dirtied; /* in: pages to be dirtied; out: pages that were */
	/* Answers. */
	__u64 accessed; /* pages that were read or written */
	__u64 rounds;
	struct xen_probe_faults faults;
};

/* Ways to set an entry. */
enum xen_probe_set_mechanism {
	XEN_PROBE_SET_EMULATE = 0,
	XEN_PROBE_SET_HYPERCALL = 1,
	XEN_PROBE_SET_MECHANISMS
};

/* Gives the pages of a range classes as above, empties their entries, sets each again by one mechanism, and checks. */
struct xen_probe_set {
	__u64 addr;
	__u32 pages;
	__u32 mechanism;
	__u32 mark;
	__u32 reserved;
	/* Answers. */
	__u64 instructions;
	struct xen_probe_faults faults; /* of the entries as they were found afterwards */
};

/* What is done again and again, without pages. */
enum xen_probe_operation_repeated {
	/* Baselines: an empty loop, and one of xen_version(0). */
	XEN_PROBE_REPEAT_NOTHING = 0,
	XEN_PROBE_REPEAT_EMPTY_HYPERCALL,
	/* The TLS descriptors of a thread that none, one, or all three differ of from those loaded. */
	XEN_PROBE_REPEAT_TLS_SAME_ALWAYS,
	XEN_PROBE_REPEAT_TLS_SAME_IF_CHANGED,
	XEN_PROBE_REPEAT_TLS_ONE_ALWAYS,
	XEN_PROBE_REPEAT_TLS_ONE_IF_CHANGED,
	XEN_PROBE_REPEAT_TLS_ALL_ALWAYS,
	XEN_PROBE_REPEAT_TLS_ALL_IF_CHANGED,
	/* Events are enabled while none, or one, is pending. */
	XEN_PROBE_REPEAT_UNMASK_IDLE_ALWAYS,
	XEN_PROBE_REPEAT_UNMASK_IDLE_IF_PENDING,
	XEN_PROBE_REPEAT_UNMASK_PENDING_ALWAYS,
	XEN_PROBE_REPEAT_UNMASK_PENDING_IF_PENDING,
	/* mmuext_op: flushes, and the base pointer that is loaded already. */
	XEN_PROBE_REPEAT_FLUSH_LOCAL,
	XEN_PROBE_REPEAT_FLUSH_ALL,
	XEN_PROBE_REPEAT_INVLPG_LOCAL,
	XEN_PROBE_REPEAT_NEW_BASEPTR,
	XEN_PROBE_REPEATED
};

struct xen_probe_repeat {
	__u32 operation;
	__u32 count;
	__u32 mark;
	__u32 reserved;
	__u64 vcpu_info; /* the kernel's per-CPU variable xen_vcpu_info: it is not exported, /proc/kallsyms has it */
	/* Answers. */
	__u64 instructions;
	__u64 wrong;   /* not as it should be afterwards: a descriptor, or an event that was not delivered at once */
	__u64 refused; /* hypercalls that Xen refused */
};

/*
 * Conformance: a case is a few pages and operations on them. Frames go by number: the case's own pages first, then
 * those that every case may name.
 */
#define XEN_PROBE_PAGES 8
#define XEN_PROBE_STEPS 32
#define XEN_PROBE_REQUESTS 64

enum xen_probe_frame {
	XEN_PROBE_FRAME_FOREIGN = XEN_PROBE_PAGES, /* RAM that is not the guest's */
	XEN_PROBE_FRAME_IO,
	XEN_PROBE_FRAME_IO_READ_ONLY,
	XEN_PROBE_FRAME_IO_DENIED,
	XEN_PROBE_FRAME_ABSENT,
	XEN_PROBE_FRAME_BEYOND,
	XEN_PROBE_FRAME_ALL_ONES,
	XEN_PROBE_FRAME_SHARED,
	XEN_PROBE_FRAMES,
	XEN_PROBE_NO_FRAME = 255,
};

enum xen_probe_operation {
	XEN_PROBE_OP_MMU_UPDATE = 1,
	XEN_PROBE_OP_MMUEXT = 2,
	XEN_PROBE_OP_UPDATE_VA = 3,
	XEN_PROBE_OP_UPDATE_VA_OTHER = 4,
	XEN_PROBE_OP_MULTICALL = 5, /* the next `count` steps */
	XEN_PROBE_OP_LOAD = 6,      /* instructions: `count` bytes */
	XEN_PROBE_OP_STORE = 7,
	XEN_PROBE_OP_XCHG = 8,
	XEN_PROBE_OP_CMPXCHG = 9,   /* the second request has the expected value */
	XEN_PROBE_OP_MACHINE_TO_PHYS = 10,
};

/* What the second half of a request, or the flags of an update_va_mapping, are meant as. */
enum xen_probe_meaning {
	XEN_PROBE_PLAIN = 0,
	XEN_PROBE_MASK = 1,       /* a pointer to these bits */
	XEN_PROBE_UNREADABLE = 2, /* a pointer to nothing */
};

/* Two words, each a frame's address or no frame, and bits. The first may be a page's virtual address instead. */
struct xen_probe_request {
	__u64 bits[2];
	__u32 frame[2];
	__u32 command;    /* mmuext_op */
	__u32 meaning;    /* of the second word */
	__u32 is_address; /* the first word is where the kernel has that page */
	__u32 reserved;
};

struct xen_probe_step {
	__u32 operation;
	__u32 domain;
	__u32 first;    /* of its requests */
	__u32 requests;
	__u32 count;
	__u32 done;     /* in and out */
	__u64 flags;    /* update_va_mapping: flush type; with XEN_PROBE_MASK the bits in `mask` */
	__u64 mask;
	__u32 meaning;
	__u32 reserved;
	/* Answers. */
	__s64 code;
	__u64 value;
};

struct xen_probe_case {
	__u32 pages;
	__u32 steps;
	__u32 requests;
	__u32 unclean; /* out: pages that could not be had back */
	__u64 frame[XEN_PROBE_FRAMES]; /* out: where they lay */
	struct xen_probe_step step[XEN_PROBE_STEPS];
	struct xen_probe_request request[XEN_PROBE_REQUESTS];
};

#define XEN_PROBE_IOC_CLEAR _IOWR('T', 2, struct xen_probe_clear)
#define XEN_PROBE_IOC_RACE _IOWR('T', 3, struct xen_probe_race)
#define XEN_PROBE_IOC_DIRTY _IO('T', 4)
#define XEN_PROBE_IOC_DIRTY_STOP _IO('T', 5)
#define XEN_PROBE_IOC_CASE _IOWR('T', 6, struct xen_probe_case)
#define XEN_PROBE_IOC_SET _IOWR('T', 7, struct xen_probe_set)
#define XEN_PROBE_IOC_REPEAT _IOWR('T', 8, struct xen_probe_repeat)

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What /dev/xen-probe is asked and what it answers: shared by the kernel module and by init.
 *
 * Addresses are user addresses of the caller's own mm. A range starts on a 2 MiB boundary, so that each
 * page table holds 512 consecutive pages of it and a batch never spans two tables.
 */
#ifndef PAGETOLL_XEN_PROBE_ABI_H
#define PAGETOLL_XEN_PROBE_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define XEN_PROBE_DEVICE "/dev/xen-probe"

/* Entries of one page table, and so the largest batch. */
#define XEN_PROBE_MAX_BATCH 512

/* No mark is put into the trace around the timed stretches. */
#define XEN_PROBE_NO_MARK 0xffffffffu

/*
 * A mark is a sched_op hypercall with a command that no Xen knows: it does nothing, and Xen records its command
 * in the trace (xen/common/trace.c, __trace_hypercall, since 4.3).
 */
#define XEN_PROBE_MARK_BEGIN 0x50540000u
#define XEN_PROBE_MARK_END 0x50550000u

enum xen_probe_mechanism {
	/* Baselines: nothing is cleared. */
	XEN_PROBE_READ = 0,            /* read every entry */
	XEN_PROBE_EMPTY_HYPERCALL = 1, /* read every entry, then xen_version(0) */
	/* Ways to get and clear an entry. */
	XEN_PROBE_EMULATE = 2,
	XEN_PROBE_SET_PTE = 3,
	XEN_PROBE_UPDATE_VA = 4,
	XEN_PROBE_LAZY = 5,
	XEN_PROBE_MMU_UPDATE = 6,
	XEN_PROBE_PRESERVE_AD = 7,
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

/* Clears A and D bits of every `every`-th entry, beginning with `first`, and flushes the TLB. */
struct xen_probe_age {
	__u64 addr;
	__u32 pages;
	__u32 every;
	__u32 first;
	__u32 keep_dirty; /* 1: clear A only */
};

/* Clears all entries of a range by one mechanism, checks, and puts them back as they were. */
struct xen_probe_clear {
	__u64 addr;
	__u32 pages;
	__u32 mechanism;
	__u32 batch;
	__u32 mark; /* id of the marks around each timed stretch, or XEN_PROBE_NO_MARK */
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

#define XEN_PROBE_IOC_AGE _IOW('T', 1, struct xen_probe_age)
#define XEN_PROBE_IOC_CLEAR _IOWR('T', 2, struct xen_probe_clear)
#define XEN_PROBE_IOC_RACE _IOWR('T', 3, struct xen_probe_race)
#define XEN_PROBE_IOC_DIRTY _IO('T', 4)
#define XEN_PROBE_IOC_DIRTY_STOP _IO('T', 5)

#endif

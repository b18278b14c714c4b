/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of xen-probe, and what they share: one page table at a time. */
#ifndef PAGETOLL_XEN_PROBE_H
#define PAGETOLL_XEN_PROBE_H

#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <xen/interface/xen.h>

#include "xen_probe_abi.h"

/*
 * One page table under work. Between table_lock() and table_unlock() the page-table lock is held and interrupts are
 * off, so the entries change by the mechanism, by other CPUs' page walks (A and D) and by nothing else.
 */
struct table {
	unsigned long addr;  /* user address that the first entry maps */
	unsigned int count;  /* entries in use */
	pte_t *entries;
	spinlock_t *lock;
	unsigned long irq_flags;
	/* What the entries held before, and what the mechanism returned for each. */
	pte_t before[XEN_PROBE_MAX_BATCH];
	pte_t returned[XEN_PROBE_MAX_BATCH];
	struct mmu_update request[XEN_PROBE_MAX_BATCH];
	u64 refused;
};

/* Gets and clears `count` entries beginning with `first`; sets t->returned. */
typedef void (*clear_batch)(struct table *t, unsigned int first, unsigned int count);

/* mechanism.c: NULL for a number that is none. */
clear_batch mechanism_find(u32 mechanism);
bool mechanism_is_baseline(u32 mechanism);
bool mechanism_supported(u32 mechanism);

/* table.c */
int table_find(struct table *t, struct mm_struct *mm, unsigned long addr, unsigned int count);
void table_lock(struct table *t);
void table_unlock(struct table *t);
void table_snapshot(struct table *t);
u64 table_write(struct table *t, const pte_t *values);
u64 table_restore(struct table *t);
void table_flush_tlb_all(void);
void table_check(const struct table *t, const pte_t *expected, struct xen_probe_faults *faults);

/* race.c: one race at a time. The caller of race_run() holds mmap_lock for writing. */
int race_run(struct table *t, struct mm_struct *mm, struct xen_probe_race *race);
int race_dirty(void);
void race_stop(void);

/* conformance.c: one case at a time. */
int conformance_run(struct xen_probe_case *c);

#endif

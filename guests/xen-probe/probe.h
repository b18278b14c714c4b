/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of xen-probe, and what they share: one page table at a time. */
#ifndef PAGETOLL_XEN_PROBE_H
#define PAGETOLL_XEN_PROBE_H

#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <asm/msr.h>
#include <asm/tsc.h>
#include <asm/xen/hypercall.h>
#include <xen/interface/event_channel.h>
#include <xen/interface/xen.h>

#include "../lib/xen_probe_abi.h"

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

/* mechanism.c: NULL for an unknown number. */
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
void table_make_classes(struct table *t);
void table_check(const struct table *t, const pte_t *expected, struct xen_probe_faults *faults);

/* race.c: one race at a time. The caller of race_run() holds mmap_lock for reading. */
int race_run(struct table *t, struct mm_struct *mm, struct xen_probe_race *race);
int race_dirty(void);
void race_stop(void);

/* clear.c, set.c: work on one table; the caller holds mmap_lock for writing. */
void clear_one(struct table *t, void *request);
bool set_known(u32 mechanism);
void set_one(struct table *t, void *request);

/* tick.c: what is timed between tick_begin() and tick_end() meets no timer, if it fits between two. All zero at first. */
struct tick {
	/* When a tick and the end of a time slice were seen last; 0 where none was. */
	u64 seen;
	u64 slice;
	unsigned int ticks;
	u64 start;
	u64 longest;
};

void tick_begin(struct tick *t);
void tick_end(struct tick *t);

/*
 * A repeated operation. What is timed lies between stretch_begin() and stretch_end(), with interrupts off.
 */
struct repeat {
	struct xen_probe_repeat *req;
	int cpu;
	u64 start;
	struct tick tick;
	/* descriptors.c */
	u64 loaded[3];
	/* events.c */
	struct vcpu_info *vcpu;
	evtchn_port_t port;
	int irq;
	u64 delivered;
};

/* An operation that can be repeated. */
struct repeated {
	/* Optional, in process context; 0 or a negative errno. */
	int (*prepare)(struct repeat *r);
	/* Runs the operation `count` times, at most `chunk`, which fits between two ticks. */
	void (*run)(struct repeat *r, unsigned int count);
	void (*finish)(struct repeat *r);
	unsigned int chunk;
};

/* repeat.c */
int repeat_run(struct xen_probe_repeat *req);

/* descriptors.c */
void tls_same_always(struct repeat *r, unsigned int count);
void tls_same_if_changed(struct repeat *r, unsigned int count);
void tls_one_always(struct repeat *r, unsigned int count);
void tls_one_if_changed(struct repeat *r, unsigned int count);
void tls_all_always(struct repeat *r, unsigned int count);
void tls_all_if_changed(struct repeat *r, unsigned int count);

/* events.c */
int unmask_prepare_idle(struct repeat *r);
int unmask_prepare_pending(struct repeat *r);
void unmask_finish_pending(struct repeat *r);
void unmask_idle_always(struct repeat *r, unsigned int count);
void unmask_idle_if_pending(struct repeat *r, unsigned int count);
void unmask_pending_always(struct repeat *r, unsigned int count);
void unmask_pending_if_pending(struct repeat *r, unsigned int count);

/* flush.c */
void flush_local(struct repeat *r, unsigned int count);
void flush_all(struct repeat *r, unsigned int count);
void flush_invlpg_local(struct repeat *r, unsigned int count);
void flush_new_baseptr(struct repeat *r, unsigned int count);

static inline void mark_begin(u32 id)
{
	if (id != NO_MARK)
		HYPERVISOR_sched_op(MARK_BEGIN + id, NULL);
	MARK_NOP(MARK_BEGIN);
}

static inline void mark_end(u32 id)
{
	MARK_NOP(MARK_END);
	if (id != NO_MARK)
		HYPERVISOR_sched_op(MARK_END + id, NULL);
}

static inline void stretch_begin(struct repeat *r)
{
	mark_begin(r->req->mark);
	r->start = rdtsc_ordered();
}

static inline void stretch_end(struct repeat *r)
{
	r->req->instructions += rdtsc_ordered() - r->start;
	mark_end(r->req->mark);
}

/* conformance.c: one case at a time. */
int conformance_run(struct xen_probe_case *c);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ways to set a page-table entry that was empty, as on a page fault. The table is pinned and in use, so it takes Xen
 * either way: a store that traps, or a hypercall.
 */
#include <linux/pgtable.h>
#include <linux/string.h>

#include "probe.h"

/* As native_set_pte(): the store traps, Xen emulates it (ptwr). */
static void set_emulate(struct table *t)
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		native_set_pte(&t->entries[i], t->before[i]);
}

/* The set_pte PV operation outside lazy MMU mode: one mmu_update (Linux 6.1, arch/x86/xen/mmu_pv.c, xen_set_pte()). */
static void set_hypercall(struct table *t)
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		set_pte(&t->entries[i], t->before[i]);
}

static void (*const mechanisms[XEN_PROBE_SET_MECHANISMS])(struct table *t) = {
	[XEN_PROBE_SET_EMULATE] = set_emulate,
	[XEN_PROBE_SET_HYPERCALL] = set_hypercall,
};

bool set_known(u32 mechanism)
{
	return mechanism < XEN_PROBE_SET_MECHANISMS;
}

/* Empties, sets, times and checks one table, which ends as it was. `request` is a struct xen_probe_set. */
void set_one(struct table *t, void *request)
{
	struct xen_probe_set *req = request;
	void (*set)(struct table *t) = mechanisms[req->mechanism];
	u64 start;

	table_lock(t);
	table_make_classes(t);
	memset(t->returned, 0, sizeof(t->returned));
	t->refused += table_write(t, t->returned);
	table_flush_tlb_all();
	mark_begin(req->mark);
	start = rdtsc_ordered();
	set(t);
	req->instructions += rdtsc_ordered() - start;
	mark_end(req->mark);
	memcpy(t->returned, t->entries, t->count * sizeof(pte_t));
	table_check(t, t->before, &req->faults);
	/* Here every entry has to be present. */
	req->faults.not_none = 0;
	t->refused += table_restore(t);
	table_flush_tlb_all();
	req->faults.refused += t->refused;
	table_unlock(t);
}

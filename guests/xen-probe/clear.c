// SPDX-License-Identifier: GPL-2.0-only
/* Clears the entries of one table by a mechanism, times it, and checks what was returned and what was left. */
#include <linux/kernel.h>

#include "probe.h"

static void count_classes(const struct table *t, u64 classes[4])
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		classes[!!pte_young(t->before[i]) + 2 * !!pte_dirty(t->before[i])]++;
}

/* The table ends as it was. `request` is a struct xen_probe_clear. */
void clear_one(struct table *t, void *request)
{
	struct xen_probe_clear *req = request;
	clear_batch clear = mechanism_find(req->mechanism);
	unsigned int i;
	u64 start;

	table_lock(t);
	table_make_classes(t);
	mark_begin(req->mark);
	start = rdtsc_ordered();
	for (i = 0; i < t->count; i += req->batch)
		clear(t, i, min(req->batch, t->count - i));
	req->instructions += rdtsc_ordered() - start;
	mark_end(req->mark);
	count_classes(t, req->classes);
	table_check(t, t->before, &req->faults);
	if (mechanism_is_baseline(req->mechanism))
		req->faults.not_none = 0;
	else
		t->refused += table_restore(t);
	table_flush_tlb_all();
	req->faults.refused += t->refused;
	table_unlock(t);
}

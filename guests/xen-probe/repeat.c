// SPDX-License-Identifier: GPL-2.0-only
/*
 * Repeats an operation that has no pages, with interrupts off, in chunks that fit between two ticks of the guest's
 * timer.
 */
#include <linux/errno.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/smp.h>

#include "probe.h"

static void run_nothing(struct repeat *r, unsigned int count)
{
	unsigned int i;

	stretch_begin(r);
	for (i = 0; i < count; i++)
		barrier();
	stretch_end(r);
}

static void run_empty_hypercall(struct repeat *r, unsigned int count)
{
	unsigned int i;

	stretch_begin(r);
	for (i = 0; i < count; i++)
		HYPERVISOR_xen_version(0, NULL);
	stretch_end(r);
}

static const struct repeated *baseline_find(u32 operation)
{
	static const struct repeated nothing = { .run = run_nothing, .chunk = 4096 };
	static const struct repeated empty_hypercall = { .run = run_empty_hypercall, .chunk = 4096 };

	switch (operation) {
	case XEN_PROBE_REPEAT_NOTHING:
		return &nothing;
	case XEN_PROBE_REPEAT_EMPTY_HYPERCALL:
		return &empty_hypercall;
	default:
		return NULL;
	}
}

static const struct repeated *find(u32 operation)
{
	const struct repeated *found = baseline_find(operation);

	if (!found)
		found = descriptors_find(operation);
	if (!found)
		found = events_find(operation);
	if (!found)
		found = flush_find(operation);
	return found;
}

static void run_chunk(const struct repeated *repeated, struct repeat *r, unsigned int count)
{
	unsigned long flags;

	tick_begin(&r->tick);
	local_irq_save(flags);
	r->cpu = smp_processor_id();
	repeated->run(r, count);
	local_irq_restore(flags);
	tick_end(&r->tick);
}

int repeat_run(struct xen_probe_repeat *req)
{
	const struct repeated *repeated = find(req->operation);
	struct repeat r = { .req = req };
	unsigned int done, count;
	int err;

	if (!repeated)
		return -EINVAL;
	req->instructions = 0;
	req->wrong = 0;
	req->refused = 0;
	err = repeated->prepare ? repeated->prepare(&r) : 0;
	if (err)
		return err;
	for (done = 0; done < req->count; done += count) {
		count = min(req->count - done, repeated->chunk);
		run_chunk(repeated, &r, count);
	}
	if (repeated->finish)
		repeated->finish(&r);
	return 0;
}

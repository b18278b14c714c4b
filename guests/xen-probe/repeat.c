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

static const struct repeated operations[XEN_PROBE_REPEATED] = {
	[XEN_PROBE_REPEAT_NOTHING] = { .run = run_nothing, .chunk = 4096 },
	[XEN_PROBE_REPEAT_EMPTY_HYPERCALL] = { .run = run_empty_hypercall, .chunk = 4096 },
	[XEN_PROBE_REPEAT_TLS_SAME_ALWAYS] = { .run = tls_same_always, .chunk = 1024 },
	[XEN_PROBE_REPEAT_TLS_SAME_IF_CHANGED] = { .run = tls_same_if_changed, .chunk = 1024 },
	[XEN_PROBE_REPEAT_TLS_ONE_ALWAYS] = { .run = tls_one_always, .chunk = 1024 },
	[XEN_PROBE_REPEAT_TLS_ONE_IF_CHANGED] = { .run = tls_one_if_changed, .chunk = 1024 },
	[XEN_PROBE_REPEAT_TLS_ALL_ALWAYS] = { .run = tls_all_always, .chunk = 1024 },
	[XEN_PROBE_REPEAT_TLS_ALL_IF_CHANGED] = { .run = tls_all_if_changed, .chunk = 1024 },
	[XEN_PROBE_REPEAT_UNMASK_IDLE_ALWAYS] = {
		.prepare = unmask_prepare_idle, .run = unmask_idle_always, .chunk = 4096,
	},
	[XEN_PROBE_REPEAT_UNMASK_IDLE_IF_PENDING] = {
		.prepare = unmask_prepare_idle, .run = unmask_idle_if_pending, .chunk = 4096,
	},
	[XEN_PROBE_REPEAT_UNMASK_PENDING_ALWAYS] = {
		.prepare = unmask_prepare_pending, .run = unmask_pending_always, .finish = unmask_finish_pending, .chunk = 256,
	},
	[XEN_PROBE_REPEAT_UNMASK_PENDING_IF_PENDING] = {
		.prepare = unmask_prepare_pending, .run = unmask_pending_if_pending, .finish = unmask_finish_pending,
		.chunk = 256,
	},
	[XEN_PROBE_REPEAT_FLUSH_LOCAL] = { .run = flush_local, .chunk = 1024 },
	[XEN_PROBE_REPEAT_FLUSH_ALL] = { .run = flush_all, .chunk = 1024 },
	[XEN_PROBE_REPEAT_INVLPG_LOCAL] = { .run = flush_invlpg_local, .chunk = 1024 },
	[XEN_PROBE_REPEAT_NEW_BASEPTR] = { .run = flush_new_baseptr, .chunk = 1024 },
};

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
	const struct repeated *repeated;
	struct repeat r = { .req = req };
	unsigned int done, count;
	int err;

	if (req->operation >= XEN_PROBE_REPEATED)
		return -EINVAL;
	repeated = &operations[req->operation];
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

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps the guest's timer out of what is timed. A tick costs Xen and the guest some 4,000 instructions, and how many of
 * them fall into a stretch would depend on when it begins: on the boot before it, and so on the size of the initramfs.
 */
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/sched.h>

#include "probe.h"

static bool fits(const struct tick *t)
{
	u64 period = (u64)tsc_khz * 1000 / HZ;

	return t->seen && (rdtsc_ordered() - t->seen) % period + 2 * t->longest < period;
}

/* Waits for the next tick, unless twice the longest stretch so far fits before it. Interrupts are on. */
void tick_begin(struct tick *t)
{
	unsigned long now = READ_ONCE(jiffies);

	/* Off the CPU and back, so that no other task is due soon. */
	cond_resched();
	preempt_disable();
	if (!fits(t)) {
		while (READ_ONCE(jiffies) == now)
			barrier();
		t->seen = rdtsc_ordered();
	}
	t->start = rdtsc_ordered();
}

void tick_end(struct tick *t)
{
	t->longest = max(t->longest, rdtsc_ordered() - t->start);
	preempt_enable();
}

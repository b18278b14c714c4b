// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps timers out of what is timed: the guest's, and the one by which credit2 ends a time slice (Xen's
 * xen/common/sched/credit2.c: CSCHED2_MAX_TIMER). Each costs 2,000 to 4,000 instructions, and how many of them fall into a
 * stretch would depend on when it begins: on the boot before it, and so on the size of the initramfs.
 */
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/sched.h>

#include "probe.h"

/* Two reads of the counter are some 50 instructions apart, unless an interrupt comes between them. */
#define INTERRUPTED 400
#define SLICE_MS 10
/* In so many ticks of 4 ms a slice ends, if slices end. */
#define TICKS_OF_A_SLICE 4
/* Slices are longer by what their ends take: of these is one seen again. */
#define PREDICTED_SLICES 3
/* What does not fit between two timers is timed with them. */
#define MOST_WAITS 12

static bool fits_before(u64 last, u64 period, const struct tick *t)
{
	return (rdtsc_ordered() - last) % period + 2 * t->longest < period;
}

static bool fits(const struct tick *t)
{
	if (!t->seen || !fits_before(t->seen, (u64)tsc_khz * 1000 / HZ, t))
		return false;
	if (!t->slice)
		return t->ticks >= TICKS_OF_A_SLICE;
	if (rdtsc_ordered() - t->slice > (u64)tsc_khz * SLICE_MS * PREDICTED_SLICES)
		return false;
	return fits_before(t->slice, (u64)tsc_khz * SLICE_MS, t);
}

/* Spins until one of the timers has gone off. */
static void await_timer(struct tick *t)
{
	unsigned long before = READ_ONCE(jiffies);
	u64 last, now = rdtsc_ordered();

	do {
		last = now;
		now = rdtsc_ordered();
		if (READ_ONCE(jiffies) != before) {
			t->seen = now;
			t->ticks++;
			return;
		}
	} while (now - last < INTERRUPTED);
	t->slice = now;
}

/* Waits for timers, unless twice the longest stretch so far fits before the next of each. Interrupts are on. */
void tick_begin(struct tick *t)
{
	/* Off the CPU and back, so that no other task is due soon. */
	cond_resched();
	preempt_disable();
	for (unsigned int waits = 0; waits < MOST_WAITS && !fits(t); waits++)
		await_timer(t);
	t->start = rdtsc_ordered();
}

void tick_end(struct tick *t)
{
	t->longest = max(t->longest, rdtsc_ordered() - t->start);
	preempt_enable();
}

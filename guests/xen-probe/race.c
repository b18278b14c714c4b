// SPDX-License-Identifier: GPL-2.0-only
/*
 * The race between a CPU that gets and clears entries and a CPU that reads and dirties the pages through them.
 *
 * A round: all entries of a table are made clean and every TLB is flushed; then the clearing CPU takes the batches in
 * turn while the other CPU reads pages, and writes the round's number to pages, at and just beyond the current batch.
 * An access that comes too late faults and fails (page faults are disabled there). After both have stopped, each page
 * that was read, or that holds the round's number, was reached by a page walk through a present entry, which set A, and
 * D for a write; a returned value without them has lost them.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "probe.h"

/* What the two CPUs share. Each field is written by one side and read by the other. */
static struct {
	u32 round;         /* clearing side: the round to take part in; 0 between rounds */
	u32 acknowledged;  /* dirtying side: the round that it has seen the end of */
	u32 joined;        /* dirtying side: the round that it takes part in */
	u32 progress;      /* clearing side: first entry of the current batch */
	u32 window;        /* clearing side: entries from there that are worth dirtying */
	u32 count;         /* clearing side: entries in the table */
	unsigned long addr;
	bool stop;
	bool read[XEN_PROBE_MAX_BATCH]; /* dirtying side: the entry's page was read in this round */
} meet;

static unsigned long page_address_of(unsigned long table_addr, unsigned int index)
{
	return table_addr + (unsigned long)index * PAGE_SIZE;
}

/* Marsaglia's xorshift32: enough to spread accesses over a window. */
static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Reads or writes a page. An access that fails came too late: the entry had been cleared. */
static void access_page(u32 round, unsigned int index, bool write)
{
	u32 __user *word = (u32 __user *)page_address_of(READ_ONCE(meet.addr), index);
	u32 value;

	if (write)
		(void)__put_user(round, word);
	else if (!__get_user(value, word))
		WRITE_ONCE(meet.read[index], true);
}

static void dirty_round(u32 round, u32 *random)
{
	u32 count = READ_ONCE(meet.count);
	u32 window = READ_ONCE(meet.window);

	pagefault_disable();
	WRITE_ONCE(meet.joined, round);
	while (READ_ONCE(meet.round) == round) {
		u32 draw = next_random(random);
		u32 index = READ_ONCE(meet.progress) + (draw >> 8) % window;

		/* Three writes to a read: writes are what must not be lost. */
		if (index < count)
			access_page(round, index, draw & 3);
		/* The clearing CPU may have to wait for this one, in stop_machine(). */
		cond_resched();
	}
	pagefault_enable();
	smp_store_release(&meet.acknowledged, round);
}

/* The dirtying side: stays here until race_stop() or a signal. */
int race_dirty(void)
{
	u32 random = 0x9e3779b9;
	u32 last = 0;

	WRITE_ONCE(meet.stop, false);
	while (!READ_ONCE(meet.stop)) {
		u32 round = smp_load_acquire(&meet.round);

		if (round && round != last) {
			dirty_round(round, &random);
			last = round;
		}
		if (signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

void race_stop(void)
{
	WRITE_ONCE(meet.stop, true);
}

/* The other CPU answers within microseconds, on an overloaded host within seconds. */
#define ANSWER_LIMIT (60 * HZ)

static bool wait_for(const u32 *value, u32 wanted)
{
	unsigned long deadline = jiffies + ANSWER_LIMIT;

	while (smp_load_acquire(value) != wanted) {
		if (time_after(jiffies, deadline) || signal_pending(current))
			return false;
		cond_resched();
	}
	return true;
}

static void make_clean(struct table *t, pte_t *clean)
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		clean[i].pte = t->before[i].pte & ~(pteval_t)(_PAGE_ACCESSED | _PAGE_DIRTY);
	t->refused += table_write(t, clean);
	table_flush_tlb_all();
}

static void clear_table(struct table *t, clear_batch clear, u32 batch)
{
	unsigned int i;

	table_lock(t);
	for (i = 0; i < t->count; i += batch) {
		WRITE_ONCE(meet.progress, i);
		clear(t, i, min(batch, t->count - i));
	}
	table_unlock(t);
}

/* What the entries must have held when they were cleared: clean, plus A and D where the page was reached. */
static int expect(struct table *t, pte_t *clean, u32 round, struct xen_probe_race *race)
{
	unsigned int i;

	for (i = 0; i < t->count; i++) {
		u32 value;

		if (get_user(value, (u32 __user *)page_address_of(t->addr, i)))
			return -EFAULT;
		if (value == round)
			clean[i].pte |= _PAGE_ACCESSED | _PAGE_DIRTY;
		else if (meet.read[i])
			clean[i].pte |= _PAGE_ACCESSED;
		race->dirtied += value == round;
		race->accessed += value == round || meet.read[i];
	}
	return 0;
}

/* One round over one table. The user pages are readable again when it returns. */
static int run_round(struct table *t, clear_batch clear, u32 round, struct xen_probe_race *race)
{
	static pte_t clean[XEN_PROBE_MAX_BATCH];
	struct xen_probe_faults faults = {};
	bool met;
	int err;

	make_clean(t, clean);
	meet.addr = t->addr;
	meet.count = t->count;
	meet.window = 2 * race->batch;
	meet.progress = 0;
	memset(meet.read, 0, sizeof(meet.read));
	smp_store_release(&meet.round, round);
	met = wait_for(&meet.joined, round);
	if (met)
		clear_table(t, clear, race->batch);
	smp_store_release(&meet.round, 0);
	if (!met)
		return -ETIMEDOUT;
	if (!wait_for(&meet.acknowledged, round))
		return -ETIMEDOUT;
	table_flush_tlb_all();
	/* Check what was left before the entries are restored, which makes the contents readable. */
	table_check(t, t->returned, &faults);
	race->faults.not_none += faults.not_none;
	t->refused += table_restore(t);
	table_flush_tlb_all();
	err = expect(t, clean, round, race);
	if (err)
		return err;
	faults = (struct xen_probe_faults){};
	table_check(t, clean, &faults);
	race->faults.lost_accessed += faults.lost_accessed;
	race->faults.lost_dirty += faults.lost_dirty;
	race->faults.wrong_frame += faults.wrong_frame;
	race->faults.wrong_flags += faults.wrong_flags;
	return 0;
}

/* Runs rounds, table after table, until race->dirtied pages were written or the time is up. */
int race_run(struct table *t, struct mm_struct *mm, struct xen_probe_race *race)
{
	static u32 round;
	clear_batch clear = mechanism_find(race->mechanism);
	unsigned long deadline = jiffies + msecs_to_jiffies(race->limit_ms);
	u32 tables = DIV_ROUND_UP(race->pages, XEN_PROBE_MAX_BATCH);
	u64 wanted = race->dirtied;
	int err = 0;

	race->dirtied = 0;
	race->accessed = 0;
	race->rounds = 0;
	while (!err && race->dirtied < wanted && time_before(jiffies, deadline)) {
		u32 skip = (u32)(race->rounds % tables) * XEN_PROBE_MAX_BATCH;

		err = table_find(t, mm, race->addr + (unsigned long)skip * PAGE_SIZE,
				 min_t(u32, race->pages - skip, XEN_PROBE_MAX_BATCH));
		if (err)
			break;
		table_snapshot(t);
		if (!++round)
			round = 1;
		err = run_round(t, clear, round, race);
		race->faults.refused += t->refused;
		race->rounds++;
		cond_resched();
	}
	return err;
}

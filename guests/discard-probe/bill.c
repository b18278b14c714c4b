// SPDX-License-Identifier: GPL-2.0-only
/* The cost of discards, and of touching memory again. */
#include "../lib/clock.h"
#include "../lib/linux/tick/tick.h"
#include "../lib/marks.h"
#include "../lib/report.h"
#include "steps.h"
#include "trial.h"

struct phase {
	uint64_t instructions, exits;
};

struct found {
	struct phase call, present, beside, again;
	struct held before, after;
	/* Sums of the first words of the pages beside, and of those discarded. */
	uint32_t sum_beside, sum_again;
};

/* Calls between two ticks: at most 32,000 instructions each, of the 4,000,000 in a tick at 250 Hz. */
#define PART 64

/* Right after a tick, so that what is shorter than a tick has none. */
static void measure(struct trial *trial, void (*run)(struct trial *trial), struct phase *sum)
{
	uint64_t exits, start;

	await_tick();
	exits = machine_exits(&trial->machine);
	MARK_NOP(MARK_BEGIN);
	start = ticks();
	run(trial);
	sum->instructions += ticks() - start;
	MARK_NOP(MARK_END);
	sum->exits += machine_exits(&trial->machine) - exits;
}

static struct phase touch(struct trial *trial, enum program program, uint32_t first)
{
	struct phase sum = { 0 };

	machine_load_chunks(&trial->machine, program, half(trial->subject), trial->subject->chunk, first);
	MARK_NOP(MARK_STEP);
	measure(trial, trial_run, &sum);
	return sum;
}

static uint32_t end_of_part(const struct trial *trial)
{
	uint32_t end = trial->next + 2 * PART, all = chunks(trial->subject);

	return end < all ? end : all;
}

static void discard_part(struct trial *trial)
{
	trial_discard_chunks(trial, trial->next, end_of_part(trial));
}

/* In parts: what the kernel leaves for later, as it frees VMAs that were split, is done at a tick. */
static struct phase discard_all(struct trial *trial)
{
	struct phase sum = { 0 };

	MARK_NOP(MARK_STEP);
	for (trial->next = DISCARDED; trial->next < chunks(trial->subject); trial->next = end_of_part(trial))
		measure(trial, discard_part, &sum);
	return sum;
}

static struct found run(struct trial *trial)
{
	struct found found = { 0 };

	found.present = touch(trial, PROGRAM_READ_CHUNKS, BESIDE);
	found.before = memory_held(&trial->memory);
	found.call = discard_all(trial);
	found.after = memory_held(&trial->memory);
	found.beside = touch(trial, PROGRAM_READ_CHUNKS, BESIDE);
	found.sum_beside = machine_sum(&trial->machine);
	found.again = touch(trial, PROGRAM_TOUCH_CHUNKS, DISCARDED);
	found.sum_again = machine_sum(&trial->machine);
	return found;
}

static void report_phase(const char *name, struct phase phase)
{
	report_more(",\"%s\":{\"instructions\":%lu,\"exits\":%lu}", name, phase.instructions, phase.exits);
}

static void report_held(const char *name, const struct held *held)
{
	report_more(",\"%s\":{\"own\":%lu,\"lazy\":%lu,\"rss\":%lu,\"page_cache\":%lu,\"deferred_splits\":%lu}", name, held->own,
		    held->lazy, held->rss, held->page_cache, held->deferred_splits);
}

static void report_found(const struct subject *subject, const struct found *found)
{
	begin_report("discard", subject);
	report_phase("call", found->call);
	report_phase("present", found->present);
	report_phase("beside", found->beside);
	report_phase("again", found->again);
	report_held("before", &found->before);
	report_held("after", &found->after);
	report_more(",\"pages\":%u,\"sum_beside\":%u,\"sum_again\":%u", half(subject), found->sum_beside, found->sum_again);
	end_report();
}

void step_bill(const struct subject *subject, uint32_t repeats)
{
	if (!can_discard(subject))
		return;
	while (repeats--) {
		struct found found;
		struct trial trial;

		if (!trial_open(&trial, subject))
			return;
		found = run(&trial);
		report_found(subject, &found);
		trial_close(&trial);
	}
}

/* Exits of the guest on these pages, without the one by which it ends. */
static uint64_t exits_on(struct trial *trial, uint64_t page, uint64_t pages)
{
	uint64_t before = machine_exits(&trial->machine);

	if (!pages)
		return 0;
	machine_load(&trial->machine, PROGRAM_TOUCH, AREA_GPA + page * PAGE, pages);
	trial_run(trial);
	return machine_exits(&trial->machine) - before - 1;
}

void step_single(const struct subject *subject)
{
	uint64_t first = subject->chunk < PAGES_2M ? PAGES_2M / 2 : 0, end = first + subject->chunk;
	uint64_t before, after, exits;
	struct trial trial;
	bool is_counted;

	if (!can_discard(subject) || !trial_open(&trial, subject))
		return;
	machine_mapped(&trial.machine, &before);
	trial_discard(&trial, first, subject->chunk);
	is_counted = machine_mapped(&trial.machine, &after);
	await_tick();
	exits = exits_on(&trial, 0, first) + exits_on(&trial, end, subject->pages - end);
	begin_report("discard-single", subject);
	if (is_counted)
		report_more(",\"taken\":%lu", before - after);
	report_more(",\"exits_beside\":%lu", exits);
	end_report();
	trial_close(&trial);
}

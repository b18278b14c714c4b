// SPDX-License-Identifier: GPL-2.0-only
/* The cost of each phase of a log. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/tick/tick.h"
#include "../lib/marks.h"
#include "log.h"
#include "steps.h"

/* Faults that a handler answers between two ticks: each is 30,000 instructions of the 4,000,000 at 250 Hz. */
#define PART 64

static uint64_t switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static uint64_t reported(const struct log *log)
{
	uint64_t pages = 0;

	for (uint64_t i = 0; i < log_words(log); i++)
		pages += __builtin_popcountll(log->dirty[i]);
	return pages;
}

struct measured {
	uint64_t instructions, exits, faults, switches;
};

/* Right after a tick, so that what is shorter than a tick has none. */
static void measure(struct log *log, void (*run)(struct log *log), struct measured *sum)
{
	uint64_t exits, switched, faults = log->faults, start;

	await_tick();
	exits = machine_exits(&log->machine);
	switched = switches();
	MARK_NOP(MARK_BEGIN);
	start = ticks();
	run(log);
	sum->instructions += ticks() - start;
	MARK_NOP(MARK_END);
	sum->switches += switches() - switched;
	sum->exits += machine_exits(&log->machine) - exits;
	sum->faults += log->faults - faults;
}

static void report_phase(const struct log *log, const struct subject *subject, const char *name,
			 const struct measured *sum)
{
	report("{\"kind\":\"dirty-phase\",\"mechanism\":\"%s\",\"folio\":\"%s\",\"chunk\":%u,\"pages\":%u,\"phase\":\"%s\","
	       "\"instructions\":%lu,\"exits\":%lu,\"faults\":%lu,\"switches\":%lu,\"reported\":%lu}",
	       subject->mechanism, subject->folio, subject->chunk, subject->pages, name, sum->instructions,
	       sum->exits, sum->faults, sum->switches, reported(log));
}

static void phase(struct log *log, const struct subject *subject, const char *name, void (*run)(struct log *log))
{
	struct measured sum = { 0 };

	MARK_NOP(MARK_STEP);
	measure(log, run, &sum);
	report_phase(log, subject, name, &sum);
}

/* The guest writes every page, so many at a time. */
static void write_parts(struct log *log, const struct subject *subject, const char *name, uint64_t part)
{
	uint64_t pages = log->area.pages;
	struct measured sum = { 0 };

	MARK_NOP(MARK_STEP);
	for (uint64_t page = 0; page < pages; page += part) {
		log_aim(log, page, part < pages - page ? part : pages - page);
		measure(log, log_write, &sum);
	}
	report_phase(log, subject, name, &sum);
}

static void write_phase(struct log *log, const struct subject *subject, const char *name)
{
	write_parts(log, subject, name, log->area.pages);
}

/* In parts where a tick would find either of two threads at work. */
static void write_tracked(struct log *log, const struct subject *subject, const char *name)
{
	write_parts(log, subject, name, log->mechanism->wakes ? PART * log->area.unit : log->area.pages);
}

static void rearm(struct log *log)
{
	if (log->mechanism->rearm)
		log->mechanism->rearm(log);
}

static void bill(struct log *log, const struct subject *subject)
{
	const struct mechanism *mechanism = log->mechanism;

	write_phase(log, subject, "rewrite-untracked");
	phase(log, subject, "arm", mechanism->arm);
	write_tracked(log, subject, "first-write");
	phase(log, subject, "harvest", mechanism->harvest);
	if (mechanism->rearm)
		phase(log, subject, "re-arm", mechanism->rearm);
	write_tracked(log, subject, "write-again");
	/* Every page is logged when it ends, and none was written since. */
	mechanism->harvest(log);
	rearm(log);
	if (!mechanism->disarm)
		return;
	phase(log, subject, "disarm", mechanism->disarm);
	write_phase(log, subject, "after-disarm");
}

void step_bill(const struct subject *subject, uint32_t repeats)
{
	while (repeats--) {
		struct log log;

		if (!log_open(&log, subject))
			return;
		bill(&log, subject);
		log_close(&log);
	}
}

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

/* Right after a tick, so that short phases have none. */
static void phase(struct log *log, const struct subject *subject, const char *name, void (*run)(struct log *log))
{
	uint64_t exits, switched, faults = log->faults, start, taken;

	await_tick();
	exits = machine_exits(&log->machine);
	switched = switches();
	MARK_NOP(MARK_STEP);
	MARK_NOP(MARK_BEGIN);
	start = ticks();
	run(log);
	taken = ticks() - start;
	MARK_NOP(MARK_END);
	switched = switches() - switched;
	report("{\"kind\":\"dirty-phase\",\"mechanism\":\"%s\",\"folio\":\"%s\",\"chunk\":%u,\"pages\":%u,\"phase\":\"%s\","
	       "\"instructions\":%lu,\"exits\":%lu,\"faults\":%lu,\"switches\":%lu,\"reported\":%lu}",
	       subject->mechanism, subject->folio, subject->chunk, subject->pages, name, taken,
	       machine_exits(&log->machine) - exits, log->faults - faults, switched, reported(log));
}

/* The guest writes every page. */
static void write_phase(struct log *log, const struct subject *subject, const char *name)
{
	log_aim(log, 0, log->area.pages);
	phase(log, subject, name, log_write);
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
	write_phase(log, subject, "first-write");
	phase(log, subject, "harvest", mechanism->harvest);
	if (mechanism->rearm)
		phase(log, subject, "re-arm", mechanism->rearm);
	write_phase(log, subject, "write-again");
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

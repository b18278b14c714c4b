// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "trial.h"

#include <string.h>

#include "../lib/linux/fail.h"

void begin_report(const char *kind, const struct subject *subject)
{
	report_begin("{\"kind\":\"%s\",\"mechanism\":\"%s\",\"backing\":\"%s\",\"batch\":%u", kind, subject->call, subject->backing,
		     subject->chunk);
}

void end_report(void)
{
	report_more("}");
	report_end();
}

/* What this guest lacks for the backing, or the errno of a call that the memory does not take. */
static void report_lacking(const struct subject *subject, const char *what, int error)
{
	begin_report("discard-unavailable", subject);
	report_more(",\"%s\":\"%s\"", error ? "call" : "lacks", what);
	if (error)
		report_more(",\"errno\":\"%s\"", strerrorname_np(error));
	end_report();
}

bool trial_open_unwritten(struct trial *trial, const struct subject *subject)
{
	const char *lacks;

	*trial = (struct trial){ .subject = subject, .call = call_find(subject->call), .machine = machine_open() };
	lacks = memory_open(&trial->memory, &trial->machine, subject->backing, subject->pages);
	if (!lacks)
		return true;
	report_lacking(subject, lacks, 0);
	trial_close(trial);
	return false;
}

bool can_discard(const struct subject *subject)
{
	struct trial trial;
	uint64_t page;
	int error;

	if (!trial_open_unwritten(&trial, subject))
		return false;
	/* The second chunk, if there is one: a part of a hugetlb page is refused where it does not begin the page. */
	page = 2 * subject->chunk < subject->pages ? 2 * subject->chunk : 0;
	error = trial.call->discard(&trial.memory, page, subject->chunk);
	if (error)
		report_lacking(subject, trial.call->what, error);
	trial_close(&trial);
	return !error;
}

bool trial_open(struct trial *trial, const struct subject *subject)
{
	if (!trial_open_unwritten(trial, subject))
		return false;
	machine_load(&trial->machine, PROGRAM_TOUCH, AREA_GPA, subject->pages);
	trial_run(trial);
	return true;
}

void trial_close(struct trial *trial)
{
	/* The machine first: a guest_memfd ends with it. */
	machine_close(&trial->machine);
	memory_close(&trial->memory);
}

void trial_touch(struct trial *trial, enum program program, uint32_t first)
{
	machine_load_chunks(&trial->machine, program, half(trial->subject), trial->subject->chunk, first);
	trial_run(trial);
}

void trial_run(struct trial *trial)
{
	for (;;) {
		enum stop stop = machine_run(&trial->machine);

		if (stop == STOP_END)
			return;
		if (stop != STOP_INTERRUPTED)
			fail("run the guest");
	}
}

void trial_discard(struct trial *trial, uint64_t page, uint64_t pages)
{
	int error = trial->call->discard(&trial->memory, page, pages);

	if (error)
		fail_with(trial->call->what, error);
}

void trial_discard_chunks(struct trial *trial, uint32_t first, uint32_t end)
{
	uint64_t chunk = trial->subject->chunk;

	for (uint64_t i = first; i < end; i += 2)
		trial_discard(trial, i * chunk, chunk);
}

// SPDX-License-Identifier: GPL-2.0-only
/* The cost of a restore until each of its boundaries, and what guest and host find in memory then. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "../demand-probe/mapping/mapping.h"
#include "../lib/clock.h"
#include "../lib/linux/tick/tick.h"
#include "../lib/marks.h"
#include "../lib/report.h"
#include "steps.h"
#include "trial.h"

/* Pages that the guest visits between two ticks: each fault is 40,000 instructions at most, of the 4,000,000 at 250 Hz. */
#define PART 64
/* The page that the image of a control lacks: not of the first batch, and of no other's border. */
#define MISSING_PAGE 333

/* Work in which no tick falls, where it is shorter than one. Exits are those beyond the end of each program. */
struct phase {
	uint64_t instructions, exits, switches, finding;
	struct work work;
};

/* Memory of the guest, in bytes. */
struct kept {
	uint64_t rss, pss, own;
};

enum boundary { FIRST, SET, LAST, BOUNDARIES };

static const char *const names[BOUNDARIES] = { "to_first", "to_set", "to_last" };

struct found {
	struct phase phases[BOUNDARIES];
	/* Once each boundary is reached. */
	struct kept kept[BOUNDARIES];
	uint64_t wrong_on_host, wrong_in_guest;
	/* Parts of the visits, and those whose words had another sum. */
	uint64_t parts, misread;
};

static uint64_t switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void add_work(struct work *sum, const struct work *now, const struct work *then)
{
	sum->faults += now->faults - then->faults;
	sum->calls += now->calls - then->calls;
	sum->reading += now->reading - then->reading;
	sum->installing += now->installing - then->installing;
}

static void measure(struct trial *trial, void (*run)(struct trial *trial), struct phase *sum)
{
	uint64_t finding = trial->finding, exits, switched, start;
	struct work work = trial->reader.work;

	await_tick();
	exits = machine_exits(&trial->machine);
	switched = switches();
	MARK_NOP(MARK_BEGIN);
	start = ticks();
	run(trial);
	sum->instructions += ticks() - start;
	MARK_NOP(MARK_END);
	sum->switches += switches() - switched;
	sum->exits += machine_exits(&trial->machine) - exits - 1;
	sum->finding += trial->finding - finding;
	add_work(&sum->work, &trial->reader.work, &work);
}

/* Follows a part of the guest's visits in what memory has to hold; the sum of the words that it has to find. */
static uint32_t follow(struct trial *trial, uint64_t first, uint64_t count)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t entry = trial->visits.list[first + i];
		uint32_t *words = trial->image.words + (entry - AREA_GPA) / PAGE * PAGE_WORDS;

		sum += words[0];
		if (entry & 1)
			words[1] = count - i;
	}
	return sum;
}

static void visit(struct trial *trial, uint64_t first, uint64_t end, enum boundary boundary, struct found *found)
{
	for (uint64_t i = first; i < end; i += PART) {
		uint64_t count = PART < end - i ? PART : end - i;

		trial_aim(trial, i, count);
		measure(trial, trial_run, &found->phases[boundary]);
		found->parts++;
		found->misread += machine_sum(&trial->machine) != follow(trial, i, count);
	}
}

static struct kept kept(const struct trial *trial)
{
	uint64_t bytes = trial->image.pages * PAGE;
	uint64_t huge = mapped_as(trial->at, bytes, "Shared_Hugetlb") + mapped_as(trial->at, bytes, "Private_Hugetlb");
	uint64_t rss = mapped_as(trial->at, bytes, "Rss") + huge;
	uint64_t pss = mapped_as(trial->at, bytes, "Pss") + huge;

	/* Each mapping has its share of a page. */
	if (trial->reader.second)
		pss += mapped_as(trial->reader.second, bytes, "Pss");
	return (struct kept){
		.rss = rss,
		.pss = pss,
		.own = trial->mechanism->is_shared ? rss : mapped_as(trial->at, bytes, "Anonymous"),
	};
}

static uint32_t hash(const uint32_t *words)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < PAGE_WORDS; i++)
		sum = sum * MACHINE_HASH_FACTOR + words[i];
	return sum;
}

static uint64_t wrong_in_guest(struct trial *trial)
{
	uint64_t wrong = 0;

	for (uint64_t page = 0; page < trial->image.pages; page++) {
		machine_load(&trial->machine, PROGRAM_HASH, AREA_GPA + page * PAGE, PAGE_WORDS);
		trial_run(trial);
		wrong += machine_sum(&trial->machine) != hash(trial->image.words + page * PAGE_WORDS);
	}
	return wrong;
}

static uint64_t wrong_on_host(const struct trial *trial)
{
	uint64_t wrong = 0;

	for (uint64_t page = 0; page < trial->image.pages; page++)
		wrong += memcmp(trial->at + page * PAGE, trial->image.words + page * PAGE_WORDS, PAGE) != 0;
	return wrong;
}

static struct found restore(struct trial *trial)
{
	const struct visits *visits = &trial->visits;
	struct found found = { 0 };

	MARK_NOP(MARK_STEP);
	measure(trial, trial_restore, &found.phases[FIRST]);
	found.kept[FIRST] = kept(trial);
	visit(trial, 0, visits->set, SET, &found);
	found.kept[SET] = kept(trial);
	visit(trial, visits->set, visits->pages, LAST, &found);
	found.kept[LAST] = kept(trial);
	found.wrong_in_guest = wrong_in_guest(trial);
	found.wrong_on_host = wrong_on_host(trial);
	return found;
}

static void report_boundary(const char *name, const struct phase *phase, const struct kept *kept)
{
	const struct work *work = &phase->work;

	report_more(",\"%s\":{\"instructions\":%lu,\"exits\":%lu,\"switches\":%lu,\"faults\":%lu,\"finding\":%lu,"
		    "\"calls\":%lu,\"reading\":%lu,\"installing\":%lu,\"rss\":%lu,\"pss\":%lu,\"own\":%lu}",
		    name, phase->instructions, phase->exits, phase->switches, work->faults, phase->finding, work->calls,
		    work->reading, work->installing, kept->rss, kept->pss, kept->own);
}

static void report_found(const struct subject *subject, const struct trial *trial, const char *kind, const struct found *found)
{
	report_begin("{\"kind\":\"%s\",\"mechanism\":\"%s\",\"batch\":%u,\"pages\":%u,\"set\":%lu", kind, subject->mechanism,
		     subject->batch, subject->pages, trial->visits.set);
	for (int i = 0; i < BOUNDARIES; i++)
		report_boundary(names[i], &found->phases[i], &found->kept[i]);
	report_more(",\"wrong_on_host\":%lu,\"wrong_in_guest\":%lu,\"parts\":%lu,\"misread\":%lu}",
		    found->wrong_on_host, found->wrong_in_guest, found->parts, found->misread);
	report_end();
}

/* Opens a trial; false, and reported, where this guest lacks something. */
static bool can_open(struct trial *trial, const struct subject *subject)
{
	const char *lacks = trial_open(trial, subject);

	if (!lacks)
		return true;
	report("{\"kind\":\"restore-unavailable\",\"mechanism\":\"%s\",\"batch\":%u,\"lacks\":\"%s\"}", subject->mechanism,
	       subject->batch, lacks);
	trial_close(trial);
	return false;
}

void step_bill(const struct subject *subject, uint32_t repeats)
{
	while (repeats--) {
		struct found found;
		struct trial trial;

		if (!can_open(&trial, subject))
			return;
		found = restore(&trial);
		report_found(subject, &trial, "restore", &found);
		trial_close(&trial);
	}
}

void step_control(const struct subject *subject)
{
	struct found found;
	struct trial trial;

	if (!can_open(&trial, subject))
		return;
	image_lose(&trial.image, MISSING_PAGE);
	found = restore(&trial);
	report_found(subject, &trial, "restore-control", &found);
	trial_close(&trial);
}

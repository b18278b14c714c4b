// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that are written and not reported. The guest counts in each page, so that a page which was written differs from its
 * copy; it writes before a harvest, and between the calls that harvest, clear and copy, which is where a user's vCPU runs.
 */
#include <stdlib.h>

#include "../lib/linux/fail.h"
#include "log.h"
#include "steps.h"

/* Runs of pages that the guest writes at a time, each at most this part of the area. */
#define RUNS 4
#define PART 8

enum order {
	/* Copies what was cleared: what is written meanwhile is reported next. */
	CLEAR_THEN_COPY,
	/* Clears what was copied, whatever was written meanwhile. */
	COPY_THEN_CLEAR,
};

struct trial {
	struct log log;
	/* The words of the area when their pages were last copied. */
	uint32_t *copies;
	uint64_t random;
	/* Pages that differed from their copies at a harvest, and of those the ones that it did not report. */
	uint64_t tried, lost;
};

/* xorshift64 */
static uint64_t draw(struct trial *trial, uint64_t below)
{
	trial->random ^= trial->random << 13;
	trial->random ^= trial->random >> 7;
	trial->random ^= trial->random << 17;
	return trial->random % below;
}

static void write_some(struct trial *trial)
{
	uint64_t pages = trial->log.area.pages;

	for (int i = 0; i < RUNS; i++) {
		uint64_t first = draw(trial, pages), left = pages - first, count = 1 + draw(trial, pages / PART);

		log_aim(&trial->log, first, count < left ? count : left);
		log_write(&trial->log);
	}
}

/* A lost page is counted once: as if it had been copied. */
static void harvest(struct trial *trial)
{
	struct log *log = &trial->log;

	log->mechanism->harvest(log);
	for (uint64_t page = 0; page < log->area.pages; page++) {
		uint32_t word = area_word(&log->area, page);

		if (word == trial->copies[page])
			continue;
		trial->tried++;
		if (has_bit(log->dirty, page))
			continue;
		trial->lost++;
		trial->copies[page] = word;
	}
}

static void copy(struct trial *trial)
{
	const struct log *log = &trial->log;

	for (uint64_t page = 0; page < log->area.pages; page++)
		if (has_bit(log->dirty, page))
			trial->copies[page] = area_word(&log->area, page);
}

/* A mechanism whose harvest clears has no other way to clear: what that reports is thrown away. */
static void clear(struct log *log)
{
	if (log->mechanism->rearm)
		log->mechanism->rearm(log);
	else
		log->mechanism->harvest(log);
}

static void round_of(struct trial *trial, enum order order)
{
	write_some(trial);
	harvest(trial);
	if (order == COPY_THEN_CLEAR || !trial->log.mechanism->rearms_all)
		write_some(trial);
	if (order == COPY_THEN_CLEAR) {
		copy(trial);
		write_some(trial);
		clear(&trial->log);
		return;
	}
	if (trial->log.mechanism->rearm) {
		trial->log.mechanism->rearm(&trial->log);
		write_some(trial);
	}
	copy(trial);
}

static bool try(struct trial *trial, const struct subject *subject, enum order order, uint32_t rounds)
{
	if (!log_open(&trial->log, subject))
		return false;
	trial->copies = calloc(subject->pages, sizeof(trial->copies[0]));
	if (!trial->copies)
		fail("allocate the copies");
	for (uint64_t page = 0; page < subject->pages; page++)
		trial->copies[page] = area_word(&trial->log.area, page);
	trial->log.mechanism->arm(&trial->log);
	while (rounds--)
		round_of(trial, order);
	harvest(trial);
	free(trial->copies);
	log_close(&trial->log);
	return true;
}

void step_loss(const struct subject *subject, uint32_t rounds)
{
	struct trial right = { .random = 1 }, late = { .random = 1 };

	if (!try(&right, subject, CLEAR_THEN_COPY, rounds) || !try(&late, subject, COPY_THEN_CLEAR, rounds))
		return;
	report("{\"kind\":\"dirty-loss\",\"mechanism\":\"%s\",\"folio\":\"%s\",\"chunk\":%u,\"tried\":%lu,\"lost\":%lu,"
	       "\"control_tried\":%lu,\"control_lost\":%lu}",
	       subject->mechanism, subject->folio, subject->chunk, right.tried, right.lost, late.tried, late.lost);
}

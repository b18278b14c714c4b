// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "visits.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../demand-probe/machine/machine.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"

/* An eighth, as live bills have it. */
#define SET 8
/* One page in ten of a recorded set is not touched again: live bills' overlap of 90 %. */
#define NOT_AGAIN 10
/* Bit 0 of an entry: PROGRAM_VISIT writes the page. */
#define WRITTEN 1u

/* xorshift32: Marsaglia, "Xorshift RNGs", 2003. */
static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void shuffle(uint32_t *pages, uint64_t count, uint32_t *state)
{
	for (uint64_t last = count - 1; last > 0; last--) {
		uint64_t other = next_random(state) % (last + 1);
		uint32_t page = pages[last];

		pages[last] = pages[other];
		pages[other] = page;
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

	return (first > second) - (first < second);
}

/* The pages of the working set but some of its last, and as many that are not of it. */
static void record(struct visits *visits)
{
	uint64_t others = visits->set / NOT_AGAIN;

	for (uint64_t i = 0; i < visits->set; i++)
		visits->is_recorded[visits->list[i]] = i < visits->set - others;
	for (uint64_t i = 0; i < others; i++)
		visits->is_recorded[visits->list[visits->set + i]] = true;
}

static void make_entries(struct visits *visits, uint32_t *state)
{
	for (uint64_t i = 0; i < visits->pages; i++) {
		uint32_t written = i < visits->set && next_random(state) & 0x10000 ? WRITTEN : 0;

		visits->list[i] = AREA_GPA + visits->list[i] * PAGE + written;
	}
}

uint64_t visits_list_pages(const struct visits *visits)
{
	return (visits->pages * sizeof(visits->list[0]) + PAGE - 1) / PAGE;
}

void visits_open(struct visits *visits, uint64_t pages)
{
	uint32_t state = 1;

	*visits = (struct visits){ .pages = pages, .set = pages / SET };
	visits->is_recorded = calloc(pages, sizeof(visits->is_recorded[0]));
	visits->list = mmap(NULL, visits_list_pages(visits) * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (visits->list == MAP_FAILED || !visits->is_recorded)
		fail("map a list of pages");
	for (uint64_t page = 0; page < pages; page++)
		visits->list[page] = page;
	shuffle(visits->list, pages, &state);
	record(visits);
	qsort(visits->list + visits->set, pages - visits->set, sizeof(visits->list[0]), compare);
	make_entries(visits, &state);
}

void visits_close(struct visits *visits)
{
	munmap(visits->list, visits_list_pages(visits) * PAGE);
	free(visits->is_recorded);
}

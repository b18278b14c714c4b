// SPDX-License-Identifier: MIT OR Apache-2.0
/* Memory shared by fork(): parent and child each see their own writes, and none of the other. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/process.h"
#include "../checks.h"

/* Pages that a thread keeps writing to while its process forks. */
#define RACE_PAGES 1024

/* Of a child and its parent. */
struct shared {
	atomic_bool go;
	volatile uint64_t found;
};

/*
 * Runs `body` in a child, after its parent has done `before`, if there is any; the child returns its count through shared
 * memory.
 */
static uint64_t in_child(uint64_t (*body)(volatile char *area, uint32_t pages),
			 void (*before)(volatile char *area, uint32_t pages), volatile char *area, uint32_t pages)
{
	struct shared *shared = map_or_fail(-1, PAGE, MAP_SHARED | MAP_ANONYMOUS);
	uint64_t found;
	pid_t child = fork_or_fail();

	if (child == 0) {
		while (before && !atomic_load(&shared->go))
			usleep(100);
		shared->found = body(area, pages);
		_exit(0);
	}
	if (before)
		before(area, pages);
	atomic_store(&shared->go, true);
	/* A child that was killed found every page wrong. */
	found = wait_for(child) ? pages : shared->found;
	munmap(shared, PAGE);
	return found;
}

static void write_odd(volatile char *area, uint32_t pages)
{
	for (size_t page = 1; page < pages; page += 2)
		*word(area, page) = 3;
}

/* The child finds 1 on every page, and writes 2 to the even ones. */
static uint64_t write_even(volatile char *area, uint32_t pages)
{
	uint64_t wrong = 0;

	for (size_t page = 0; page < pages; page++) {
		if (*word(area, page) != 1)
			wrong++;
		if (page % 2 == 0)
			*word(area, page) = 2;
	}
	for (size_t page = 0; page < pages; page++)
		if (*word(area, page) != (page % 2 == 0 ? 2 : 1))
			wrong++;
	return wrong;
}

struct finding check_fork_contents(uint32_t pages)
{
	struct finding finding = { .tried = 3ull * pages };
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	for (size_t page = 0; page < pages; page++)
		*word(area, page) = 1;
	finding.failed = in_child(write_even, write_odd, area, pages);
	for (size_t page = 0; page < pages; page++)
		if (*word(area, page) != (page % 2 == 0 ? 1 : 3))
			finding.failed++;
	munmap((void *)area, pages * PAGE);
	return finding;
}

/* What the parent of a child has in swap. */
#define SWAPPED_WORD 1000

static uint64_t count_not_swapped_in(volatile char *area, uint32_t pages)
{
	return count_wrong_words(area, pages, SWAPPED_WORD);
}

struct finding check_fork_swapped(uint32_t pages)
{
	struct finding finding = { 0 };
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	use_swap();
	write_all_pages(area, pages, SWAPPED_WORD);
	page_out((void *)area, pages * PAGE);
	/* Pages that were not swapped out prove nothing. */
	finding.tried = count_swapped(area, pages);
	finding.failed = in_child(count_not_swapped_in, NULL, area, pages) + count_not_swapped_in(area, pages);
	munmap((void *)area, pages * PAGE);
	return finding;
}

struct writing {
	volatile char *area;
	uint64_t written[RACE_PAGES];
	atomic_bool end;
};

static void *keep_writing(void *argument)
{
	struct writing *writing = argument;

	for (uint64_t value = 2; !atomic_load(&writing->end); value++)
		for (size_t page = 0; page < RACE_PAGES; page++) {
			*word(writing->area, page) = value;
			writing->written[page] = value;
		}
	return NULL;
}

/* What the child sees is what its parent wrote, and does not change although its parent keeps writing. */
static uint64_t watch(volatile char *area, uint32_t pages)
{
	static uint64_t seen[RACE_PAGES];
	uint64_t wrong = 0;

	for (size_t page = 0; page < pages; page++)
		seen[page] = *word(area, page);
	usleep(2000);
	for (size_t page = 0; page < pages; page++)
		if (!seen[page] || *word(area, page) != seen[page])
			wrong++;
	return wrong;
}

struct finding check_fork_race(uint32_t pages)
{
	static struct writing writing;
	struct finding finding = { 0 };
	pthread_t thread;

	memset(&writing, 0, sizeof(writing));
	writing.area = map_or_fail(-1, RACE_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);
	for (size_t page = 0; page < RACE_PAGES; page++)
		*word(writing.area, page) = writing.written[page] = 1;
	thread = start_thread(keep_writing, &writing);
	while (needs_round(&finding, pages)) {
		finding.failed += in_child(watch, NULL, writing.area, RACE_PAGES);
		finding.tried += RACE_PAGES;
	}
	atomic_store(&writing.end, true);
	pthread_join(thread, NULL);
	for (size_t page = 0; page < RACE_PAGES; page++)
		if (*word(writing.area, page) != writing.written[page])
			finding.failed++;
	munmap((void *)writing.area, RACE_PAGES * PAGE);
	return finding;
}

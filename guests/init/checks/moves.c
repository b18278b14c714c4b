// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Pages that mremap() moves have their content where they go, and none is left where they were. Runs of pages have all
 * lengths, and lie elsewhere in their page tables than before: else whole tables would be moved.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/mman.h>

#include "../../lib/linux/fail.h"
#include "../checks.h"

#define TABLE (512 * PAGE)
#define OFFSET (37 * PAGE)
#define LONGEST 70
#define VALUE 0x6d6f766500000000u

/* Pages in runs of 1 to LONGEST, one that was not written after each. */
struct runs {
	uint32_t length, left;
};

static bool is_written(struct runs *runs)
{
	if (runs->left > 0) {
		runs->left--;
		return true;
	}
	runs->length = runs->length % LONGEST + 1;
	runs->left = runs->length;
	return false;
}

/* Of the pages that are not written, each second is read before they move: zeroes are mapped there. */
static void write_runs(volatile char *area, uint32_t pages)
{
	struct runs runs = { 0 };

	for (uint32_t page = 0; page < pages; page++)
		if (is_written(&runs))
			*word(area, page) = VALUE + page;
		else if (runs.length % 2)
			(void)*word(area, page);
}

static uint64_t count_not_moved(volatile char *old, volatile char *moved, uint32_t pages)
{
	struct runs runs = { 0 };
	uint64_t failed = 0;

	for (uint32_t page = 0; page < pages; page++)
		failed += *word(moved, page) != (is_written(&runs) ? VALUE + page : 0) || *word(old, page) != 0;
	return failed;
}

struct finding check_mremap_contents(uint32_t pages)
{
	size_t size = pages * PAGE, room = size + 2 * TABLE;
	volatile char *area = map_or_fail(-1, size, MAP_PRIVATE | MAP_ANONYMOUS);
	volatile char *reserve = map_or_fail(-1, room, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	size_t apart = ((uintptr_t)area - (uintptr_t)reserve) % TABLE;
	void *target = (void *)(reserve + apart + OFFSET);
	struct finding finding = { .tried = pages };

	write_runs(area, pages);
	if (mremap((void *)area, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target) != target)
		fail("mremap FIXED, DONTUNMAP");
	finding.failed = count_not_moved(area, target, pages);
	munmap((void *)area, size);
	munmap((void *)reserve, room);
	return finding;
}

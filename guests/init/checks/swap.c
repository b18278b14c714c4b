// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Reclaim, and the soft-dirty bits that must survive it.
 *
 * An entry's dirty bit seldom decides whether a page is kept: the kernel takes an anonymous page for dirty the first time
 * that it is swapped out. Two kinds of pages depend on the bit: those written after they were read back from a slot that
 * still holds their old contents, and those written after MADV_FREE.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/mman.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/file.h"
#include "../checks.h"

/* Written, swapped out, in, written, and swapped out again. */
static void swap_twice(struct finding *finding, uint32_t pages, bool forking)
{
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	write_all_pages(area, pages, 1000);
	page_out((void *)area, pages * PAGE);
	/* Not by faults: on a fast disk a fault frees the slot and takes the page for dirty. */
	madvise((void *)area, pages * PAGE, MADV_WILLNEED);
	finding->failed += count_wrong_words(area, pages, 1000);
	write_all_pages(area, pages, 5000000);
	if (forking)
		fork_once();
	page_out((void *)area, pages * PAGE);
	/* Pages that were not swapped out prove nothing. */
	finding->tried += count_swapped(area, pages);
	finding->failed += count_wrong_words(area, pages, 5000000);
	munmap((void *)area, pages * PAGE);
}

/* Written, freed, and written again, which keeps them. */
static void write_after_free(struct finding *finding, uint32_t pages, bool forking)
{
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	write_all_pages(area, pages, 1000);
	if (madvise((void *)area, pages * PAGE, MADV_FREE) < 0)
		fail("madvise FREE");
	write_all_pages(area, pages, 5000000);
	if (forking)
		fork_once();
	page_out((void *)area, pages * PAGE);
	finding->tried += pages;
	finding->failed += count_wrong_words(area, pages, 5000000);
	munmap((void *)area, pages * PAGE);
}

static struct finding reclaim(uint32_t pages, bool forking)
{
	struct finding finding = { 0 };

	use_swap();
	swap_twice(&finding, pages, forking);
	write_after_free(&finding, pages, forking);
	return finding;
}

struct finding check_swap(uint32_t pages)
{
	return reclaim(pages, false);
}

struct finding check_swap_after_fork(uint32_t pages)
{
	return reclaim(pages, true);
}

/*
 * Every second page is swapped out and dropped: entries side by side would be cleared together, by more updates than a
 * PV guest queues. What the kernel then thinks of the entries that it cleared is in its log.
 */
struct finding check_dontneed_swapped(uint32_t pages)
{
	struct finding finding = { 0 };
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);
	unsigned int warnings = kernel_warnings(NULL, 0);

	use_swap();
	for (size_t page = 0; page < pages; page += 2)
		*word(area, page) = 1000 + page;
	page_out((void *)area, pages * PAGE);
	finding.tried = count_swapped(area, pages);
	if (madvise((void *)area, pages * PAGE, MADV_DONTNEED) < 0)
		fail("madvise DONTNEED");
	for (size_t page = 0; page < pages; page++)
		if (*word(area, page))
			finding.failed++;
	finding.failed += kernel_warnings(NULL, 0) - warnings;
	munmap((void *)area, pages * PAGE);
	return finding;
}

static uint64_t count_not_soft_dirty(volatile char *area, uint32_t pages)
{
	uint64_t wrong = 0;

	for (size_t page = 0; page < pages; page++) {
		bool found = pagemap_entry(area + page * PAGE) & PAGEMAP_SOFT_DIRTY;

		if (found != (page % 2 == 0))
			wrong++;
	}
	return wrong;
}

/* Even pages are written after the bits were cleared; a fork and a swap must not change the bits of either kind. */
struct finding check_soft_dirty(uint32_t pages)
{
	struct finding finding = { .tried = 3ull * pages };
	volatile char *area = map_or_fail(-1, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	use_swap();
	write_all_pages(area, pages, 1);
	write_file("/proc/self/clear_refs", "4");
	for (size_t page = 0; page < pages; page += 2)
		*word(area, page) = 2;
	finding.failed = count_not_soft_dirty(area, pages);
	fork_once();
	finding.failed += count_not_soft_dirty(area, pages);
	page_out((void *)area, pages * PAGE);
	finding.failed += count_not_soft_dirty(area, pages);
	munmap((void *)area, pages * PAGE);
	return finding;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks that VFIO unpins exactly what it pinned, whatever lies where in physical memory:
 *
 *   small-unpinned  pages are pinned while they are mapped, and none is after one ioctl has unmapped them all
 *   large-unpinned  and so are large pages, and parts of them
 *   neighbours      what is mapped beside memory that is unmapped stays pinned, and the device still reads it
 *
 * The kernel tells by fork(): a child shares the pages of its parent, but gets copies of those that are pinned.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/check.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"
#include "../lib/linux/process.h"
#include "edu.h"
#include "memory.h"
#include "steps.h"
#include "vfio.h"

/* Aligned to 1 GiB, above what the machine reserves below 4 GiB. */
#define IOVA (16ull << 30)
#define SCRATCH_IOVA (64ull << 30)
/* Pages of a folio of 2 MiB. */
#define LARGE 512u
/* Words that the device reads, each of which takes it 100 ms. */
#define WORDS 4

/* Memory, the frames of its pages, and what a child has copied. */
struct area {
	char *addr;
	uint32_t pages;
	uint64_t *frames;
	bool *copied;
};

static void *shared_or_fail(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		fail("map shared memory");
	return addr;
}

static struct area area_new(char *addr, uint32_t pages)
{
	return (struct area){ addr, pages, shared_or_fail(pages * sizeof(uint64_t)), shared_or_fail(pages) };
}

static void area_free(struct area *area)
{
	munmap(area->frames, area->pages * sizeof(uint64_t));
	munmap(area->copied, area->pages);
}

static void read_frames(const char *addr, uint32_t pages, uint64_t *frames)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ssize_t size = pages * sizeof(*frames);

	if (pagemap < 0 || pread(pagemap, frames, size, (uintptr_t)addr / PAGE * sizeof(*frames)) != size)
		fail("read /proc/self/pagemap");
	close(pagemap);
	for (uint32_t page = 0; page < pages; page++)
		frames[page] &= PAGEMAP_PFN;
}

/* Finds out which pages of an area are pinned. */
static void find_pinned(struct area *area)
{
	pid_t child;

	read_frames(area->addr, area->pages, area->frames);
	child = fork_or_fail();
	if (!child) {
		uint64_t *own = calloc(area->pages, sizeof(*own));

		read_frames(area->addr, area->pages, own);
		for (uint32_t page = 0; page < area->pages; page++)
			area->copied[page] = own[page] != area->frames[page];
		_exit(0);
	}
	if (wait_for(child))
		fail("find what is pinned");
}

static uint64_t count_pinned(struct area *area)
{
	uint64_t count = 0;

	find_pinned(area);
	for (uint32_t page = 0; page < area->pages; page++)
		count += area->copied[page];
	return count;
}

/* Words of the area, one in each of `words` parts, that the device does not find; only pages that `mapped` says it can. */
static uint64_t misread(const struct vfio *vfio, const struct area *area, bool (*mapped)(uint32_t page))
{
	struct memory scratch = memory_get("4K", 1);
	struct edu edu = edu_open(vfio);
	uint64_t wrong = 0;

	vfio_map(vfio, scratch.addr, SCRATCH_IOVA, PAGE);
	for (uint32_t word = 0; word < WORDS; word++) {
		uint32_t page = area->pages / WORDS * word + area->pages / WORDS - 1;
		volatile uint64_t *mark;

		while (!mapped(page))
			page--;
		mark = (void *)(area->addr + page * PAGE);
		*mark = 0xfeed000000000000 + page;
		edu_fetch(&edu, IOVA + page * PAGE);
		edu_store(&edu, SCRATCH_IOVA);
		wrong += *(volatile uint64_t *)scratch.addr != *mark;
	}
	vfio_unmap(vfio, SCRATCH_IOVA, PAGE);
	edu_close(&edu);
	memory_put(&scratch);
	return wrong;
}

static bool every_page(uint32_t page)
{
	(void)page;
	return true;
}

/* Maps an area by one ioctl and unmaps it by one. Tried: each page twice, the words, and the pages accounted. */
static struct finding map_and_unmap(const struct vfio *vfio, struct area *area)
{
	struct finding finding = { 2ull * area->pages + WORDS + 1, 0 };
	uint64_t before = accounted_pages(TYPE1);

	vfio_map(vfio, area->addr, IOVA, area->pages * PAGE);
	finding.failed += area->pages - count_pinned(area);
	finding.failed += misread(vfio, area, every_page);
	vfio_unmap(vfio, IOVA, area->pages * PAGE);
	finding.failed += count_pinned(area);
	finding.failed += accounted_pages(TYPE1) != before;
	return finding;
}

/* The place in ascending order of the frame that a page of the area is to have. */
typedef uint32_t (*order)(uint32_t page, uint32_t pages);

static uint32_t upwards(uint32_t page, uint32_t pages)
{
	(void)pages;
	return page;
}

static uint32_t downwards(uint32_t page, uint32_t pages)
{
	return pages - 1 - page;
}

/* Runs of up to three frames, the last of them first. */
static uint32_t threes(uint32_t page, uint32_t pages)
{
	uint32_t run = pages - pages % 3;

	return page >= run ? page : run - 3 - page / 3 * 3 + page % 3;
}

/* Each second frame, then the others: near one another and never adjacent. */
static uint32_t seconds(uint32_t page, uint32_t pages)
{
	uint32_t half = (pages + 1) / 2;

	return page < half ? page * 2 : (page - half) * 2 + 1;
}

/* Every fifth pair of neighbours is exchanged. */
static uint32_t exchanged(uint32_t page, uint32_t pages)
{
	return page / 2 % 5 || (page ^ 1) >= pages ? page : page ^ 1;
}

static const order orders[] = { upwards, downwards, threes, seconds, exchanged };

struct placed {
	uint64_t frame;
	uint32_t page;
};

static int by_frame(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;

	return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* Moves small pages so that their frames come in an order. */
static void arrange(const struct memory *from, char *to, order order)
{
	struct placed *placed = calloc(from->pages, sizeof(*placed));
	uint64_t *frames = calloc(from->pages, sizeof(*frames));

	read_frames(from->addr, from->pages, frames);
	for (uint32_t page = 0; page < from->pages; page++)
		placed[page] = (struct placed){ frames[page], page };
	qsort(placed, from->pages, sizeof(*placed), by_frame);
	for (uint32_t page = 0; page < from->pages; page++) {
		char *source = from->addr + placed[order(page, from->pages)].page * PAGE;

		if (mremap(source, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + page * PAGE) == MAP_FAILED)
			fail("move a page");
	}
	free(frames);
	free(placed);
}

static void add(struct finding *sum, struct finding one)
{
	sum->tried += one.tried;
	sum->failed += one.failed;
}

/* Small pages whose frames come in an order. */
static struct finding small_pages(const struct vfio *vfio, uint32_t pages, order order)
{
	struct memory memory = memory_get("4K", pages), place = memory_get("none", pages);
	struct area area = area_new(place.addr, pages);
	struct finding finding;

	arrange(&memory, place.addr, order);
	finding = map_and_unmap(vfio, &area);
	area_free(&area);
	memory_put(&place);
	memory_put(&memory);
	return finding;
}

/* All but the first and the last `skipped` pages of large ones. */
static struct finding large_pages(const struct vfio *vfio, uint32_t pages, const char *shape, uint32_t skipped)
{
	struct memory memory = memory_get(shape, pages);
	struct area area = area_new(memory.addr + skipped * PAGE, pages - 2 * skipped);
	struct finding finding = map_and_unmap(vfio, &area);

	area_free(&area);
	memory_put(&memory);
	return finding;
}

static struct finding check_small_unpinned(uint32_t pages)
{
	struct vfio vfio = vfio_open(TYPE1);
	struct finding finding = { 0 };

	for (size_t i = 0; i < COUNT_OF(orders) && !finding.failed; i++)
		add(&finding, small_pages(&vfio, pages, orders[i]));
	vfio_close(&vfio);
	return finding;
}

/* Entries of 2 MiB, and of 4 KiB where addresses and frames are not aligned to each other. */
static const struct {
	const char *shape;
	uint32_t skipped;
} large[] = { { "THP", 0 }, { "2M-split", 0 }, { "2M-split", LARGE / 2 }, { "2M-joined", 1 } };

static struct finding check_large_unpinned(uint32_t pages)
{
	struct vfio vfio = vfio_open(TYPE1);
	struct finding finding = { 0 };

	/* What stays pinned is missing afterwards: the first failure ends it. */
	for (size_t i = 0; i < COUNT_OF(large) && !finding.failed; i++)
		add(&finding, large_pages(&vfio, pages, large[i].shape, large[i].skipped));
	vfio_close(&vfio);
	return finding;
}

/* Pages of each ioctl, of which every second one is undone first. */
#define WINDOW 8u

static bool is_kept(uint32_t page)
{
	return page / WINDOW % 2;
}

static void unmap_windows(const struct vfio *vfio, uint32_t pages, bool kept)
{
	for (uint32_t page = 0; page < pages; page += WINDOW)
		if (is_kept(page) == kept)
			vfio_unmap(vfio, IOVA + page * PAGE, WINDOW * PAGE);
}

/* Of every window whether it is pinned, the words, and every page once more at the end. */
static struct finding windows(const struct vfio *vfio, struct area *area)
{
	struct finding finding = { 2ull * area->pages + WORDS, 0 };

	for (uint32_t page = 0; page < area->pages; page += WINDOW)
		vfio_map(vfio, area->addr + page * PAGE, IOVA + page * PAGE, WINDOW * PAGE);
	unmap_windows(vfio, area->pages, false);
	find_pinned(area);
	for (uint32_t page = 0; page < area->pages; page++)
		finding.failed += area->copied[page] != is_kept(page);
	finding.failed += misread(vfio, area, is_kept);
	unmap_windows(vfio, area->pages, true);
	finding.failed += count_pinned(area);
	return finding;
}

static struct finding check_neighbours(uint32_t pages)
{
	struct memory memory = memory_get("4K", pages), place = memory_get("none", pages);
	struct area area = area_new(place.addr, pages);
	struct vfio vfio = vfio_open(TYPE1);
	struct finding finding;

	arrange(&memory, place.addr, upwards);
	finding = windows(&vfio, &area);
	vfio_close(&vfio);
	area_free(&area);
	memory_put(&place);
	memory_put(&memory);
	return finding;
}

static const struct check checks[] = {
	{ "small-unpinned", check_small_unpinned },
	{ "large-unpinned", check_large_unpinned },
	{ "neighbours", check_neighbours },
};

void step_check(const char *name, uint32_t pages)
{
	run_check(checks, name, pages);
}

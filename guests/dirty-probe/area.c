// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "area.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/named.h"

#define THP_SHARED "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

struct shape {
	const char *name;
	/* Flags of a private mapping, and of a memfd. */
	int flags, file_flags;
	int advice;
	/* The unit of the area. */
	uint64_t unit;
	/* The lines of smaps that have its size, by enum area_memory, where the kernel may make something else. */
	const char *proof[2];
};

static const struct shape shapes[] = {
	{ "4K", 0, 0, MADV_NOHUGEPAGE, 1, { NULL, NULL } },
	{ "THP", 0, 0, MADV_HUGEPAGE, 1, { "AnonHugePages", "ShmemPmdMapped" } },
	{ "2M", MAP_HUGETLB, MFD_HUGETLB, 0, PAGES_2M, { NULL, NULL } },
};

static const struct shape *shape_find(const char *name)
{
	return find_named(shapes, name);
}

static void populate(const struct area *area, int advice)
{
	/* Of a file, no kernel makes large pages unless it is asked. */
	if (advice == MADV_HUGEPAGE)
		allow_thp();
	if (advice == MADV_HUGEPAGE && area->view != area->at)
		write_file(THP_SHARED, "advise");
	if (advice && madvise(area->at, area->pages * PAGE, advice) < 0)
		fail("advise about the area");
	for (uint64_t page = 0; page < area->pages; page++)
		*(volatile char *)(area->at + page * PAGE) = 0;
}

/* A file of the area's size. */
static int open_file(const struct area *area, int flags)
{
	int file = memfd_create("area", MFD_CLOEXEC | flags);

	if (file < 0 || ftruncate(file, area->pages * PAGE) < 0)
		fail("make a file for the area");
	return file;
}

static void map(struct area *area, const struct shape *shape, enum area_memory memory)
{
	int file = memory == AREA_SHARED ? open_file(area, shape->file_flags) : -1;
	int flags = memory == AREA_SHARED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | shape->flags;
	size_t bytes = area->pages * PAGE;

	area->at = mmap(reserve(area->pages, &area->reserved), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0);
	area->view = memory == AREA_SHARED ? mmap(NULL, bytes, PROT_READ, flags, file, 0) : area->at;
	if (area->at == MAP_FAILED || area->view == MAP_FAILED)
		fail("map the area");
	if (file >= 0)
		close(file);
}

bool area_open(struct area *area, enum area_memory memory, const char *folio, uint64_t pages)
{
	const struct shape *shape = shape_find(folio);

	*area = (struct area){ .pages = pages, .unit = shape->unit };
	if (shape->flags & MAP_HUGETLB && !set_hugetlb_pool(pages))
		return false;
	map(area, shape, memory);
	populate(area, shape->advice);
	return !shape->proof[memory] ||
	       mapped_as(area->at, pages * PAGE, shape->proof[memory]) == pages * PAGE;
}

void area_close(struct area *area)
{
	if (area->view != area->at)
		munmap((void *)area->view, area->pages * PAGE);
	if (area->at)
		unreserve(area->reserved, area->pages);
	if (area->unit > 1)
		set_hugetlb_pool(0);
}

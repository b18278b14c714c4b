// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "area.h"

#include <sys/mman.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"

struct shape {
	const char *name;
	int flags, advice;
	/* The unit of the area. */
	uint64_t unit;
	/* The line of smaps that has its size, where the kernel may make something else. */
	const char *proof;
};

static const struct shape shapes[] = {
	{ "4K", 0, MADV_NOHUGEPAGE, 1, NULL },
	{ "THP", 0, MADV_HUGEPAGE, 1, "AnonHugePages" },
	{ "2M", MAP_HUGETLB, 0, PAGES_2M, NULL },
};

static const struct shape *shape_find(const char *name)
{
	return find_named(shapes, name);
}

static void populate(const struct area *area, int advice)
{
	if (advice == MADV_HUGEPAGE)
		allow_thp();
	if (advice && madvise(area->at, area->pages * PAGE, advice) < 0)
		fail("advise about the area");
	for (uint64_t page = 0; page < area->pages; page++)
		*(volatile char *)(area->at + page * PAGE) = 0;
}

bool area_open(struct area *area, const char *folio, uint64_t pages)
{
	const struct shape *shape = shape_find(folio);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | shape->flags;

	*area = (struct area){ .pages = pages, .unit = shape->unit };
	if (shape->flags & MAP_HUGETLB && !set_hugetlb_pool(pages))
		return false;
	area->at = mmap(reserve(pages, &area->reserved), pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (area->at == MAP_FAILED)
		fail("map the area");
	populate(area, shape->advice);
	return !shape->proof || mapped_as(area->at, pages * PAGE, shape->proof) == pages * PAGE;
}

void area_close(struct area *area)
{
	if (area->at)
		unreserve(area->reserved, area->pages);
	if (area->unit > 1)
		set_hugetlb_pool(0);
}

// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "area.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/named.h"

#define SIZE_2M (PAGES_2M * PAGE)
#define THP "/sys/kernel/mm/transparent_hugepage/enabled"
#define POOL_2M "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

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

static void set_pool(uint64_t pages)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", pages);
	write_file(POOL_2M, text);
}

static bool pool_has(uint64_t pages)
{
	unsigned long found = 0;
	char text[24];

	read_line(POOL_2M, text, sizeof(text));
	sscanf(text, "%lu", &found);
	return found >= pages;
}

/* Addresses from a multiple of 2 MiB on. */
static char *reserve(struct area *area)
{
	area->reserved = mmap(NULL, area->pages * PAGE + SIZE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);
	if (area->reserved == MAP_FAILED)
		fail("reserve addresses");
	return (char *)(((uintptr_t)area->reserved + SIZE_2M - 1) & ~(SIZE_2M - 1));
}

/* Bytes of the mapping at an address, by a line of smaps. */
static uint64_t mapped_as(const char *at, const char *wanted)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, size, found = 0;
	bool is_there = false;
	char line[256], word[64];

	if (!file)
		fail("open smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &size) == 2)
			is_there = start == (uintptr_t)at;
		else if (is_there && sscanf(line, "%63[^:]: %lu kB", word, &size) == 2 && !strcmp(word, wanted))
			found = size * 1024;
	}
	fclose(file);
	return found;
}

static void populate(const struct area *area, int advice)
{
	/* A kernel with less than 512 MiB of memory makes no large pages unless it is asked. */
	if (advice == MADV_HUGEPAGE)
		write_file(THP, "madvise");
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
	if (shape->flags & MAP_HUGETLB) {
		set_pool(pages / PAGES_2M);
		if (!pool_has(pages / PAGES_2M))
			return false;
	}
	area->at = mmap(reserve(area), pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (area->at == MAP_FAILED)
		fail("map the area");
	populate(area, shape->advice);
	return !shape->proof || mapped_as(area->at, shape->proof) == pages * PAGE;
}

void area_close(struct area *area)
{
	if (area->at)
		munmap(area->reserved, area->pages * PAGE + SIZE_2M);
	if (area->unit > 1)
		set_pool(0);
}

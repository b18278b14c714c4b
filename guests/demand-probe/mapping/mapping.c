// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "mapping.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/file.h"

#define THP "/sys/kernel/mm/transparent_hugepage/enabled"
#define POOL_2M "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

char *reserve(uint64_t pages, void **reserved)
{
	*reserved = mmap(NULL, pages * PAGE + SIZE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*reserved == MAP_FAILED)
		fail("reserve addresses");
	return (char *)(((uintptr_t)*reserved + SIZE_2M - 1) & ~(SIZE_2M - 1));
}

void unreserve(void *reserved, uint64_t pages)
{
	munmap(reserved, pages * PAGE + SIZE_2M);
}

void allow_thp(void)
{
	write_file(THP, "madvise");
}

bool set_hugetlb_pool(uint64_t pages)
{
	unsigned long found = 0;
	char text[24];

	snprintf(text, sizeof(text), "%lu", pages / PAGES_2M);
	write_file(POOL_2M, text);
	read_line(POOL_2M, text, sizeof(text));
	sscanf(text, "%lu", &found);
	return found >= pages / PAGES_2M;
}

uint64_t mapped_as(const char *at, uint64_t size, const char *wanted)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end, kib, found = 0;
	bool is_there = false;
	char line[256], word[64];

	if (!file)
		fail("open smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_there = start >= (uintptr_t)at && end <= (uintptr_t)at + size;
		else if (is_there && sscanf(line, "%63[^:]: %lu kB", word, &kib) == 2 && !strcmp(word, wanted))
			found += kib * 1024;
	}
	fclose(file);
	return found;
}

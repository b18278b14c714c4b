// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/page.h"

#define MIB (1ul << 20)
#define HUGE_SHIFT 26 /* MAP_HUGE_SHIFT */
#define HUGETLB(log2) (MAP_HUGETLB | (log2) << HUGE_SHIFT)
#define MTHP_64K "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"

#define MTHP_2M "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled"

/* Of /proc/kpageflags: Documentation/admin-guide/mm/pagemap.rst. */
#define KPF_COMPOUND_TAIL (1ull << 16)

static void *map_or_fail(void *at, uint64_t size, int flags, int fd)
{
	void *addr = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (addr == MAP_FAILED)
		fail("map memory");
	return addr;
}

/* Reserves addresses from a multiple of `align` on. */
static void reserve(struct memory *memory, uint64_t align)
{
	memory->whole_size = memory->pages * PAGE + align;
	memory->whole = mmap(NULL, memory->whole_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory->whole == MAP_FAILED)
		fail("reserve addresses");
	memory->addr = (char *)(((uintptr_t)memory->whole + align - 1) & ~(align - 1));
}

static void touch(const struct memory *memory, uint64_t from, uint64_t step)
{
	for (uint64_t page = from; page < memory->pages; page += step)
		*(volatile char *)(memory->addr + page * PAGE) = 1;
}

static void fill(struct memory *memory, int flags, int fd)
{
	map_or_fail(memory->addr, memory->pages * PAGE, flags | MAP_FIXED, fd);
}

static void anonymous(struct memory *memory, int advice)
{
	fill(memory, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(memory->addr, memory->pages * PAGE, advice);
	touch(memory, 0, 1);
}

/* khugepaged would collapse small pages while they are measured. */
static void keep_folios(const struct memory *memory)
{
	madvise(memory->addr, memory->pages * PAGE, MADV_NOHUGEPAGE);
}

/* Large pages, each mapped by 512 entries: a change of protection splits the entry, not the folio. */
static void map_by_entries(const struct memory *memory)
{
	keep_folios(memory);
	for (uint64_t page = 1; page < memory->pages; page += 512) {
		mprotect(memory->addr + page * PAGE, PAGE, PROT_READ);
		mprotect(memory->addr + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
	}
}

/* Where the next larger size is allowed, it is preferred: only this one is. */
static void small_folios(struct memory *memory)
{
	write_file(MTHP_2M, "never");
	write_file(MTHP_64K, "always");
	anonymous(memory, MADV_HUGEPAGE);
	keep_folios(memory);
	write_file(MTHP_64K, "never");
	write_file(MTHP_2M, "inherit");
}

/* The pool returns neighbouring pages one after the other: every second page is faulted later. */
static void split(struct memory *memory)
{
	fill(memory, MAP_PRIVATE | MAP_ANONYMOUS | HUGETLB(21), -1);
	touch(memory, 0, 1024);
	touch(memory, 512, 1024);
}

static void touch_down(const struct memory *memory)
{
	for (uint64_t page = memory->pages; page; page -= 512)
		*(volatile char *)(memory->addr + (page - 512) * PAGE) = 1;
}

/*
 * The pool returns first what was freed last, so that addresses go up at one time and down at another, and the direction
 * changes whenever memory is freed: three attempts cover every case.
 */
static void joined(struct memory *memory)
{
	for (int attempt = 0; attempt < 3; attempt++) {
		fill(memory, MAP_PRIVATE | MAP_ANONYMOUS | HUGETLB(21), -1);
		if (attempt == 1)
			touch_down(memory);
		else
			touch(memory, 0, 512);
		if (memory_layout(memory).runs <= memory->pages / 1024)
			break;
	}
}

static void of_file(struct memory *memory)
{
	int fd = memfd_create("pin-probe", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, memory->pages * PAGE) < 0)
		fail("make a file in memory");
	fill(memory, MAP_SHARED, fd);
	madvise(memory->addr, memory->pages * PAGE, MADV_NOHUGEPAGE);
	touch(memory, 0, 1);
	close(fd);
}

const char *memory_unavailable(const char *shape, uint64_t pages)
{
	const char *pool = NULL;
	unsigned long page_kib = 0, free_pages = 0;
	FILE *file;

	if (!strcmp(shape, "64K") && access(MTHP_64K, W_OK))
		return "the kernel makes no anonymous folios of 64 KiB (Linux 6.8 or later does)";
	if (!strcmp(shape, "2M") || !strcmp(shape, "2M-split") || !strcmp(shape, "2M-joined"))
		page_kib = 2048;
	if (!strcmp(shape, "1G"))
		page_kib = 1048576;
	if (!page_kib)
		return NULL;
	pool = page_kib == 2048 ? "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages" :
				  "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
	file = fopen(pool, "re");
	if (file && fscanf(file, "%lu", &free_pages) != 1)
		free_pages = 0;
	if (file)
		fclose(file);
	if (free_pages * page_kib >= pages * 4)
		return NULL;
	return page_kib == 2048 ? "too few free hugepages of 2 MiB" : "too few free hugepages of 1 GiB";
}

struct memory memory_get(const char *shape, uint64_t pages)
{
	struct memory memory = { .pages = pages };
	bool huge = !strcmp(shape, "1G");

	reserve(&memory, huge ? 1024 * MIB : 2 * MIB);
	if (!strcmp(shape, "4K"))
		anonymous(&memory, MADV_NOHUGEPAGE);
	else if (!strcmp(shape, "64K"))
		small_folios(&memory);
	else if (!strcmp(shape, "THP"))
		anonymous(&memory, MADV_HUGEPAGE);
	else if (!strcmp(shape, "2M-entries")) {
		anonymous(&memory, MADV_HUGEPAGE);
		map_by_entries(&memory);
	} else if (!strcmp(shape, "2M"))
		fill(&memory, MAP_PRIVATE | MAP_ANONYMOUS | HUGETLB(21), -1);
	else if (!strcmp(shape, "2M-split"))
		split(&memory);
	else if (!strcmp(shape, "2M-joined"))
		joined(&memory);
	else if (huge)
		fill(&memory, MAP_PRIVATE | MAP_ANONYMOUS | HUGETLB(30), -1);
	else if (!strcmp(shape, "file"))
		of_file(&memory);
	else if (!strcmp(shape, "read-only"))
		anonymous(&memory, MADV_NOHUGEPAGE);
	else if (strcmp(shape, "none"))
		fail_with(shape, EINVAL);
	if (!strcmp(shape, "2M") || huge)
		touch(&memory, 0, 1);
	return memory;
}

void memory_put(struct memory *memory)
{
	munmap(memory->whole, memory->whole_size);
}

static uint64_t entry(int fd, uint64_t index, const char *what)
{
	uint64_t value;

	if (pread(fd, &value, sizeof(value), index * sizeof(value)) != sizeof(value))
		fail(what);
	return value;
}

struct layout memory_layout(const struct memory *memory)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int flags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	uint64_t first = (uintptr_t)memory->addr / PAGE, last = 0, length = 0;
	struct layout layout = { 0 };

	if (pagemap < 0 || flags < 0)
		fail("open /proc/self/pagemap and /proc/kpageflags");
	for (uint64_t page = 0; page < memory->pages; page++) {
		uint64_t pfn = entry(pagemap, first + page, "read /proc/self/pagemap") & PAGEMAP_PFN;
		bool tail = entry(flags, pfn, "read /proc/kpageflags") & KPF_COMPOUND_TAIL;

		if (!page || pfn != last + 1)
			layout.runs++;
		/* A tail that does not follow its own folio's page begins in the middle of one. */
		if (!page || !tail || pfn != last + 1) {
			layout.folios++;
			length = 0;
		}
		length++;
		if (length > layout.largest)
			layout.largest = length;
		last = pfn;
	}
	close(flags);
	close(pagemap);
	return layout;
}

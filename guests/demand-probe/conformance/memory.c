// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/named.h"
#include "../../lib/linux/page.h"

#define MEMORIES 4
/* crates/conformance/src/kvm/place.rs */
#define STRIDE (1ull << 34)
#define HUGE (2ul << 20)
#define PAGEMAP_PRESENT (1ull << 63)

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

struct kind {
	const char *name;
	uint64_t page;
	int protection;
	bool has_file;
	unsigned int memfd;
	/* The file is opened for reading, so that the memory can never be written. */
	bool for_reading;
	/* It is made read-only when it is filled: /proc/self/mem may refuse to write to what is. */
	bool until_filled;
};

static const struct kind kinds[] = {
	{ "anonymous", PAGE, PROT_READ | PROT_WRITE },
	{ "read-only", PAGE, PROT_READ | PROT_WRITE, .until_filled = true },
	{ "shmem", PAGE, PROT_READ | PROT_WRITE, true, MFD_CLOEXEC },
	{ "shmem-for-reading", PAGE, PROT_READ, true, MFD_CLOEXEC, true },
	{ "hugetlb", HUGE, PROT_READ | PROT_WRITE, true, MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB },
	{ "none", PAGE },
};

static struct memory {
	const struct kind *kind;
	uint64_t start, pages;
	int file;
} memories[MEMORIES];
static unsigned int used;

/* /proc/self/mem and /proc/self/pagemap. */
static int contents = -1, entries = -1;

static void open_once(int *fd, const char *path, int flags)
{
	if (*fd < 0)
		*fd = open(path, flags | O_CLOEXEC);
	if (*fd < 0)
		fail(path);
}

static void read_contents(void *to, size_t size, uint64_t at)
{
	if (pread(contents, to, size, at) != (ssize_t)size)
		fail("read /proc/self/mem");
}

static int open_file(const struct kind *kind, uint64_t size)
{
	int file = memfd_create("conformance", kind->memfd);

	if (file < 0 || ftruncate(file, size) < 0)
		fail("memfd_create");
	return file;
}

static int reopen_for_reading(int file)
{
	char path[64];
	int reopened;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	reopened = open(path, O_RDONLY | O_CLOEXEC);
	if (reopened < 0)
		fail(path);
	return reopened;
}

static void map(const struct memory *memory)
{
	const struct kind *kind = memory->kind;
	int file = kind->for_reading ? reopen_for_reading(memory->file) : memory->file;
	int flags = MAP_FIXED_NOREPLACE | (kind->has_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
	uint64_t size = memory->pages * kind->page;
	void *at = (void *)memory->start;

	if (mmap(at, size, kind->protection, flags, file, 0) != at)
		fail("map a memory of a case");
	/* hugetlb takes no advice, and a kernel without transparent huge pages has none to avoid. */
	if (madvise(at, size, MADV_NOHUGEPAGE) < 0 && errno != EINVAL)
		fail("MADV_NOHUGEPAGE");
}

static uint64_t label(unsigned int memory, uint64_t page)
{
	return (uint64_t)(memory + 1) << 32 | (page + 1);
}

static void fill(const struct memory *memory, bool is_mapped)
{
	uint64_t size = memory->kind->page, words = size / sizeof(uint64_t), *page = malloc(size), touched;
	bool has_file = memory->kind->has_file;

	if (!page)
		fail("malloc");
	for (uint64_t i = 0; i < memory->pages; i++) {
		uint64_t at = memory->start + i * size;

		for (uint64_t word = 0; word < words; word++)
			page[word] = label(memory - memories, i);
		if (pwrite(has_file ? memory->file : contents, page, size, has_file ? i * size : at) != (ssize_t)size)
			fail("fill a page");
		if (is_mapped)
			read_contents(&touched, sizeof(touched), at);
	}
	free(page);
}

static void protect(const struct memory *memory)
{
	if (mprotect((void *)memory->start, memory->pages * memory->kind->page, PROT_READ) < 0)
		fail("mprotect");
}

void memory_add(const char *kind, const char *content, uint64_t pages)
{
	struct memory *memory = &memories[used];

	if (used == MEMORIES)
		fail_with("memories of a case", E2BIG);
	open_once(&contents, "/proc/self/mem", O_RDWR);
	open_once(&entries, "/proc/self/pagemap", O_RDONLY);
	*memory = (struct memory){ find_named(kinds, kind), STRIDE * (used + 1), pages, -1 };
	used++;
	if (!strcmp(kind, "none"))
		return;
	if (memory->kind->has_file)
		memory->file = open_file(memory->kind, pages * memory->kind->page);
	map(memory);
	if (*content)
		fill(memory, !strcmp(content, "filled"));
	if (memory->kind->until_filled)
		protect(memory);
}

static void show_number(bool is_there, uint64_t number)
{
	if (is_there)
		report_more("%lu,", (unsigned long)number);
	else
		report_more("null,");
}

/* The first word, the word that fills the rest, and whether a userfaultfd protects the page. */
static void show_page(uint64_t at, uint64_t size)
{
	uint64_t words = size / sizeof(uint64_t), *page = malloc(size), entry;
	bool is_present, is_alike = true;

	if (!page || pread(entries, &entry, sizeof(entry), at / PAGE * sizeof(entry)) != sizeof(entry))
		fail("read /proc/self/pagemap");
	is_present = entry & PAGEMAP_PRESENT;
	if (is_present)
		read_contents(page, size, at);
	for (uint64_t i = 2; is_present && i < words; i++)
		is_alike &= page[i] == page[1];
	report_more("[");
	show_number(is_present, page[0]);
	show_number(is_present && is_alike, page[1]);
	report_more("%s]", entry & PAGEMAP_UFFD_WP ? "true" : "false");
	free(page);
}

void memory_show(unsigned int memory)
{
	const struct memory *shown = &memories[memory];

	if (memory >= used)
		fail_with("a memory to show", EINVAL);
	report_more("{\"shown\":[");
	for (uint64_t i = 0; i < shown->pages; i++) {
		report_more("%s", i ? "," : "");
		show_page(shown->start + i * shown->kind->page, shown->kind->page);
	}
	report_more("]}");
}

// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../demand-probe/abi/kvm_abi.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

struct backing {
	const char *name;
	int flags, advice;
	/* Opens the file that is mapped: false where it cannot be had. */
	bool (*open_file)(struct memory *memory, const struct machine *machine);
	/* Pages of its file are the guest's, by fstat or by mincore. */
	bool has_blocks, has_gmem;
	/* Pages have to be set aside for it. */
	bool is_hugetlb;
	/* Named where it cannot be had. */
	const char *lacks;
};

static void resize(int file, const struct memory *memory)
{
	if (ftruncate(file, memory->pages * PAGE) < 0)
		fail("size a memfd");
}

static bool open_memfd(struct memory *memory, const struct machine *machine)
{
	unsigned int flags = MFD_CLOEXEC | (memory->backing->is_hugetlb ? MFD_HUGETLB | MFD_HUGE_2MB : 0);

	(void)machine;
	if (memory->backing->is_hugetlb && !set_hugetlb_pool(memory->pages))
		return false;
	memory->file = memfd_create("discard", flags);
	if (memory->file < 0)
		fail("make a memfd");
	resize(memory->file, memory);
	return true;
}

/* A file in the page cache with words of its own, opened to be read. */
static bool open_image(struct memory *memory, const struct machine *machine)
{
	int written = memfd_create("image", MFD_CLOEXEC);
	char path[32];

	(void)machine;
	if (written < 0)
		fail("make an image");
	resize(written, memory);
	for (uint64_t page = 0; page < memory->pages; page++)
		if (pwrite(written, &(uint32_t){ WORD_FILE }, sizeof(uint32_t), page * PAGE) < 0)
			fail("write an image");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", written);
	memory->file = open(path, O_RDONLY | O_CLOEXEC);
	if (memory->file < 0)
		fail("open an image");
	close(written);
	return true;
}

static bool open_gmem(struct memory *memory, const struct machine *machine)
{
	memory->file = machine_make_guest_memfd(machine, memory->pages);
	return memory->file >= 0;
}

static const struct backing backings[] = {
	{ "anonymous", MAP_PRIVATE | MAP_ANONYMOUS, MADV_NOHUGEPAGE, .open_file = NULL },
	{ "thp", MAP_PRIVATE | MAP_ANONYMOUS, MADV_HUGEPAGE, .lacks = "transparent huge pages" },
	{ "private-file", MAP_PRIVATE, .open_file = open_image },
	{ "memfd", MAP_SHARED, .open_file = open_memfd, .has_blocks = true },
	{ "hugetlb-2m", MAP_SHARED, .open_file = open_memfd, .has_blocks = true, .is_hugetlb = true,
	  .lacks = "so many pages of 2 MiB" },
	{ "guest-memfd", MAP_SHARED, .open_file = open_gmem, .has_gmem = true, .lacks = "GUEST_MEMFD_FLAG_MMAP" },
};

static const struct backing *backing_find(const char *name)
{
	return find_named(backings, name);
}

static void attach(const struct memory *memory, struct machine *machine)
{
	int error;

	if (memory->backing->has_gmem)
		error = machine_attach_guest_memfd(machine, memory->at, memory->pages, memory->file, 0);
	else
		error = machine_attach(machine, memory->at, memory->pages, 0);
	if (error)
		fail_with("set the memslot of the memory", error);
}

static void map(struct memory *memory)
{
	const struct backing *backing = memory->backing;
	char *at = reserve(memory->pages, &memory->reserved);

	if (mmap(at, memory->pages * PAGE, PROT_READ | PROT_WRITE, backing->flags | MAP_FIXED, memory->file, 0) == MAP_FAILED)
		fail("map the memory");
	memory->at = at;
	if (backing->advice == MADV_HUGEPAGE)
		allow_thp();
	if (backing->advice && madvise(at, memory->pages * PAGE, backing->advice) < 0)
		fail("advise about the memory");
	memory_set_words(memory, 0, memory->pages, WORD_OLD);
}

static bool is_as_wanted(const struct memory *memory)
{
	uint64_t bytes = memory->pages * PAGE;

	return memory->backing->advice != MADV_HUGEPAGE || mapped_as(memory->at, bytes, "AnonHugePages") == bytes;
}

const char *memory_open(struct memory *memory, struct machine *machine, const char *backing, uint64_t pages)
{
	*memory = (struct memory){ .backing = backing_find(backing), .pages = pages, .file = -1 };
	if (memory->backing->open_file && !memory->backing->open_file(memory, machine))
		return memory->backing->lacks;
	map(memory);
	if (!is_as_wanted(memory))
		return memory->backing->lacks;
	attach(memory, machine);
	return NULL;
}

void memory_close(struct memory *memory)
{
	if (memory->at)
		unreserve(memory->reserved, memory->pages);
	if (memory->file >= 0)
		close(memory->file);
	if (memory->backing->is_hugetlb)
		set_hugetlb_pool(0);
}

void memory_set_words(const struct memory *memory, uint64_t page, uint64_t pages, uint32_t word)
{
	for (uint64_t end = page + pages; page < end; page++)
		*(volatile uint32_t *)(memory->at + page * PAGE) = word;
}

static uint64_t blocks(const struct memory *memory)
{
	struct stat facts;

	if (fstat(memory->file, &facts) < 0)
		fail("fstat of guest memory");
	return facts.st_blocks * 512ull;
}

/* Bytes of a file that are in the page cache. */
static uint64_t cached(const struct memory *memory)
{
	unsigned char *is_there = calloc(memory->pages, 1);
	void *at = mmap(NULL, memory->pages * PAGE, PROT_READ, MAP_SHARED, memory->file, 0);
	uint64_t found = 0;

	if (!is_there || at == MAP_FAILED || mincore(at, memory->pages * PAGE, is_there) < 0)
		fail("mincore of guest memory");
	for (uint64_t page = 0; page < memory->pages; page++)
		found += is_there[page] & 1;
	munmap(at, memory->pages * PAGE);
	free(is_there);
	return found * PAGE;
}

/* thp_deferred_split_page of /proc/vmstat: deferred_split_folio of mm/huge_memory.c. */
static uint64_t deferred_splits(void)
{
	FILE *file = fopen("/proc/vmstat", "re");
	unsigned long found = 0;
	char line[128];

	if (!file)
		fail("open vmstat");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "thp_deferred_split_page %lu", &found) == 1)
			break;
	fclose(file);
	return found;
}

struct held memory_held(const struct memory *memory)
{
	const struct backing *backing = memory->backing;
	uint64_t bytes = memory->pages * PAGE, of_file = 0;
	bool is_image = backing->open_file == open_image;

	if (backing->has_blocks)
		of_file = blocks(memory);
	else if (backing->has_gmem)
		of_file = cached(memory);
	return (struct held){
		.own = mapped_as(memory->at, bytes, "Anonymous") + of_file,
		.lazy = mapped_as(memory->at, bytes, "LazyFree"),
		.rss = mapped_as(memory->at, bytes, "Rss") + mapped_as(memory->at, bytes, "Shared_Hugetlb") +
		       mapped_as(memory->at, bytes, "Private_Hugetlb"),
		.page_cache = is_image ? cached(memory) : 0,
		.deferred_splits = deferred_splits(),
	};
}

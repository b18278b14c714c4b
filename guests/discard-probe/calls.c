// SPDX-License-Identifier: GPL-2.0-only
/* The calls by which a VMM gives memory of its guest back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include "../lib/linux/named.h"
#include "memory.h"

static int advise(const struct memory *memory, uint64_t page, uint64_t pages, int advice)
{
	return madvise(memory->at + page * PAGE, pages * PAGE, advice) < 0 ? errno : 0;
}

static int dont_need(const struct memory *memory, uint64_t page, uint64_t pages)
{
	return advise(memory, page, pages, MADV_DONTNEED);
}

static int free_later(const struct memory *memory, uint64_t page, uint64_t pages)
{
	return advise(memory, page, pages, MADV_FREE);
}

static int remove_pages(const struct memory *memory, uint64_t page, uint64_t pages)
{
	return advise(memory, page, pages, MADV_REMOVE);
}

static int map_fixed(const struct memory *memory, uint64_t page, uint64_t pages)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	void *at = mmap(memory->at + page * PAGE, pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);

	return at == MAP_FAILED ? errno : 0;
}

static int punch_hole(const struct memory *memory, uint64_t page, uint64_t pages)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	return fallocate(memory->file, mode, page * PAGE, pages * PAGE) < 0 ? errno : 0;
}

static const struct call calls[] = {
	{ "madv-dontneed", dont_need, "madvise(MADV_DONTNEED)" },
	{ "madv-free", free_later, "madvise(MADV_FREE)" },
	{ "map-fixed", map_fixed, "mmap(MAP_FIXED)" },
	{ "punch-hole", punch_hole, "fallocate(FALLOC_FL_PUNCH_HOLE)" },
	{ "madv-remove", remove_pages, "madvise(MADV_REMOVE)" },
};

const struct call *call_find(const char *name)
{
	return find_named(calls, name);
}

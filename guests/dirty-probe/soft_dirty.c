// SPDX-License-Identifier: GPL-2.0-only
/* Soft-dirty bits: Documentation/admin-guide/mm/soft-dirty.rst. They are of the whole process, and cannot be switched off. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "log.h"

#define CLEAR_REFS "/proc/self/clear_refs"
#define SOFT_DIRTY "4"
/* Entries of pagemap that are read at a time. */
#define ENTRIES 512

static void clear_refs(struct log *log)
{
	(void)log;
	write_file(CLEAR_REFS, SOFT_DIRTY);
}

/* A kernel without them takes the call and does nothing: a page that was just written has the bit, or there is none. */
static const char *lacks_soft_dirty(int kvm)
{
	volatile char word;
	uint64_t entry = 0;
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	(void)kvm;
	word = 1;
	if (pagemap < 0 || pread(pagemap, &entry, sizeof(entry), (uintptr_t)&word / PAGE * sizeof(entry)) != sizeof(entry))
		fail("read pagemap");
	close(pagemap);
	return entry & PAGEMAP_SOFT_DIRTY ? NULL : "CONFIG_MEM_SOFT_DIRTY";
}

static void prepare(struct log *log)
{
	log->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	log->regions = calloc(ENTRIES, sizeof(uint64_t));
	if (log->pagemap < 0 || !log->regions)
		fail("prepare to read pagemap");
	memset(log->regions, 0xff, ENTRIES * sizeof(uint64_t));
}

static void finish(struct log *log)
{
	close(log->pagemap);
	free(log->regions);
}

static void harvest(struct log *log)
{
	const uint64_t *entries = log->regions;

	memset(log->dirty, 0, log_words(log) * sizeof(log->dirty[0]));
	for (uint64_t page = 0; page < log->area.pages; page += ENTRIES) {
		uint64_t left = log->area.pages - page, count = left < ENTRIES ? left : ENTRIES;
		ssize_t size = count * sizeof(entries[0]);

		if (pread(log->pagemap, log->regions, size, ((uintptr_t)log->area.at / PAGE + page) * 8) != size)
			fail("read pagemap");
		for (uint64_t i = 0; i < count; i++)
			if (entries[i] & PAGEMAP_SOFT_DIRTY)
				set_bit(log->dirty, page + i);
	}
}

const struct mechanism soft_dirty = {
	.lacks = lacks_soft_dirty, .rearms_all = true, .prepare = prepare, .finish = finish,
	.arm = clear_refs, .harvest = harvest, .rearm = clear_refs,
};

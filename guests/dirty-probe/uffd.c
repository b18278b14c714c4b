// SPDX-License-Identifier: GPL-2.0-only
/* Calls to a userfaultfd, and pagemap's scan, that more than one mechanism makes. */
#define _GNU_SOURCE
#include "uffd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "log.h"

/* Runs of pages that a scan returns at a time. */
#define REGIONS 512

int uffd_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (uffd < 0)
		fail("open a userfaultfd");
	if (ioctl(uffd, UFFDIO_API, &api) == 0)
		return uffd;
	close(uffd);
	return -1;
}

const char *uffd_lacks(uint64_t features, const char *name)
{
	int uffd = uffd_open(features);

	if (uffd < 0)
		return name;
	close(uffd);
	return NULL;
}

void uffd_register(struct log *log, uint64_t mode)
{
	struct uffdio_register range = {
		.range = { (uintptr_t)log->area.at, log->area.pages * PAGE }, .mode = mode,
	};

	if (ioctl(log->uffd, UFFDIO_REGISTER, &range) < 0)
		fail("UFFDIO_REGISTER");
}

void uffd_unregister(struct log *log)
{
	struct uffdio_range range = { (uintptr_t)log->area.at, log->area.pages * PAGE };

	if (ioctl(log->uffd, UFFDIO_UNREGISTER, &range) < 0)
		fail("UFFDIO_UNREGISTER");
}

void uffd_protect_reported(struct log *log, void (*protect)(struct log *log, uint64_t page, uint64_t pages))
{
	uint64_t pages = log->area.pages;

	for (uint64_t page = 0; page < pages;) {
		uint64_t first = page;

		while (page < pages && has_bit(log->dirty, page))
			page++;
		if (page > first)
			protect(log, first, page - first);
		while (page < pages && !has_bit(log->dirty, page))
			page++;
	}
}

void uffd_prepare_scan(struct log *log, uint64_t features)
{
	log->uffd = uffd_open(features);
	log->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	log->regions = calloc(REGIONS, sizeof(struct abi_page_region));
	if (log->pagemap < 0 || !log->regions)
		fail("prepare a scan of pagemap");
	memset(log->regions, 0xff, REGIONS * sizeof(struct abi_page_region));
}

void uffd_finish_scan(struct log *log)
{
	close(log->uffd);
	close(log->pagemap);
	free(log->regions);
}

static void report_region(struct log *log, const struct abi_page_region *region)
{
	uint64_t from = (region->start - (uintptr_t)log->area.at) / PAGE;
	uint64_t to = (region->end - (uintptr_t)log->area.at) / PAGE;

	for (uint64_t page = from; page < to; page++)
		set_bit(log->dirty, page);
}

void uffd_scan(struct log *log, uint64_t category, uint64_t flags)
{
	const struct abi_page_region *regions = log->regions;
	struct abi_scan scan = {
		.size = sizeof(scan), .flags = flags,
		.start = (uintptr_t)log->area.at, .end = (uintptr_t)log->area.at + log->area.pages * PAGE,
		.vec = (uintptr_t)regions, .vec_len = REGIONS,
		.category_mask = category, .return_mask = category,
	};

	memset(log->dirty, 0, log_words(log) * sizeof(log->dirty[0]));
	for (; scan.start < scan.end; scan.start = scan.walk_end) {
		int found = ioctl(log->pagemap, ABI_PAGEMAP_SCAN, &scan);

		if (found < 0)
			fail("PAGEMAP_SCAN");
		for (int i = 0; i < found; i++)
			report_region(log, &regions[i]);
	}
}

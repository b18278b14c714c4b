// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write protection by userfaultfd: Documentation/admin-guide/mm/userfaultfd.rst. Either a reader gets a message for each
 * protected page that is written, and lifts its protection, or the kernel lifts it by itself (WP_ASYNC), and a scan of pagemap
 * finds and protects the pages that have none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/process.h"
#include "log.h"
#include "uffd.h"

/* Runs of pages that a scan returns at a time. */
#define REGIONS 512

#define SYNC (UFFD_FEATURE_PAGEFAULT_FLAG_WP | ABI_UFFD_WP_HUGETLBFS_SHMEM)
#define ASYNC (SYNC | ABI_UFFD_WP_UNPOPULATED | ABI_UFFD_WP_ASYNC)

/* A descriptor, or -1 where the kernel lacks a feature. */
static int open_uffd(uint64_t features)
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

static const char *lacks(uint64_t features, const char *name)
{
	int uffd = open_uffd(features);

	if (uffd < 0)
		return name;
	close(uffd);
	return NULL;
}

static const char *lacks_sync(int kvm)
{
	const char *what = lacks(UFFD_FEATURE_PAGEFAULT_FLAG_WP, "UFFD_FEATURE_PAGEFAULT_FLAG_WP");

	(void)kvm;
	return what ? what : lacks(SYNC, "UFFD_FEATURE_WP_HUGETLBFS_SHMEM");
}

static const char *lacks_async(int kvm)
{
	(void)kvm;
	return lacks(ASYNC, "UFFD_FEATURE_WP_ASYNC");
}

static void protect(struct log *log, uint64_t page, uint64_t pages, uint64_t mode)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)log->area.at + page * PAGE, pages * PAGE }, .mode = mode,
	};

	while (ioctl(log->uffd, UFFDIO_WRITEPROTECT, &wp) < 0)
		if (errno != EAGAIN)
			fail("UFFDIO_WRITEPROTECT");
}

static void arm(struct log *log)
{
	struct uffdio_register range = {
		.range = { (uintptr_t)log->area.at, log->area.pages * PAGE }, .mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (ioctl(log->uffd, UFFDIO_REGISTER, &range) < 0)
		fail("UFFDIO_REGISTER");
	protect(log, 0, log->area.pages, UFFDIO_WRITEPROTECT_MODE_WP);
}

/* Lifts the protection of all pages, too. */
static void disarm(struct log *log)
{
	struct uffdio_range range = { (uintptr_t)log->area.at, log->area.pages * PAGE };

	if (ioctl(log->uffd, UFFDIO_UNREGISTER, &range) < 0)
		fail("UFFDIO_UNREGISTER");
}

/* A page is reported before it can be written. */
static void *lift_protection(void *argument)
{
	struct log *log = argument;
	struct uffd_msg message;

	for (;;) {
		uint64_t page;

		if (read(log->uffd, &message, sizeof(message)) != sizeof(message))
			fail("read the userfaultfd");
		page = (message.arg.pagefault.address - (uintptr_t)log->area.at) / PAGE;
		page -= page % log->area.unit;
		for (uint64_t i = page; i < page + log->area.unit; i++)
			__atomic_or_fetch(&log->written[i / 64], 1ull << i % 64, __ATOMIC_SEQ_CST);
		log->faults++;
		protect(log, page, log->area.unit, 0);
	}
}

static void prepare_sync(struct log *log)
{
	log->uffd = open_uffd(SYNC);
	log->reader = start_thread(lift_protection, log);
}

static void finish_sync(struct log *log)
{
	pthread_cancel(log->reader);
	pthread_join(log->reader, NULL);
	close(log->uffd);
}

/* By one call for pages that are next to each other. */
static void protect_reported(struct log *log)
{
	uint64_t pages = log->area.pages;

	for (uint64_t page = 0; page < pages;) {
		uint64_t first = page;

		while (page < pages && has_bit(log->dirty, page))
			page++;
		if (page > first)
			protect(log, first, page - first, UFFDIO_WRITEPROTECT_MODE_WP);
		while (page < pages && !has_bit(log->dirty, page))
			page++;
	}
}

static void prepare_async(struct log *log)
{
	log->uffd = open_uffd(ASYNC);
	log->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	log->regions = calloc(REGIONS, sizeof(struct abi_page_region));
	if (log->pagemap < 0 || !log->regions)
		fail("prepare a scan of pagemap");
	memset(log->regions, 0xff, REGIONS * sizeof(struct abi_page_region));
}

static void finish_async(struct log *log)
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

static void scan(struct log *log)
{
	const struct abi_page_region *regions = log->regions;
	struct abi_scan scan = {
		.size = sizeof(scan), .flags = ABI_SCAN_WP_MATCHING | ABI_SCAN_CHECK_WPASYNC,
		.start = (uintptr_t)log->area.at, .end = (uintptr_t)log->area.at + log->area.pages * PAGE,
		.vec = (uintptr_t)regions, .vec_len = REGIONS,
		.category_mask = ABI_PAGE_IS_WRITTEN, .return_mask = ABI_PAGE_IS_WRITTEN,
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

const struct mechanism uffd_wp = {
	.lacks = lacks_sync, .prepare = prepare_sync, .finish = finish_sync, .arm = arm,
	.harvest = log_take_written, .rearm = protect_reported, .disarm = disarm,
};
const struct mechanism uffd_wp_async = {
	.lacks = lacks_async, .prepare = prepare_async, .finish = finish_async, .arm = arm, .harvest = scan,
	.disarm = disarm,
};

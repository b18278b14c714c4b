// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write protection by userfaultfd: Documentation/admin-guide/mm/userfaultfd.rst. Either a reader gets a message for each
 * protected page that is written, and lifts its protection, or the kernel lifts it by itself (WP_ASYNC), and a scan of pagemap
 * finds and protects the pages that have none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/process.h"
#include "log.h"
#include "uffd.h"

#define SYNC (UFFD_FEATURE_PAGEFAULT_FLAG_WP | ABI_UFFD_WP_HUGETLBFS_SHMEM)
#define ASYNC (SYNC | ABI_UFFD_WP_UNPOPULATED | ABI_UFFD_WP_ASYNC)

static const char *lacks_sync(int kvm)
{
	const char *what = uffd_lacks(UFFD_FEATURE_PAGEFAULT_FLAG_WP, "UFFD_FEATURE_PAGEFAULT_FLAG_WP");

	(void)kvm;
	return what ? what : uffd_lacks(SYNC, "UFFD_FEATURE_WP_HUGETLBFS_SHMEM");
}

static const char *lacks_async(int kvm)
{
	(void)kvm;
	return uffd_lacks(ASYNC, "UFFD_FEATURE_WP_ASYNC");
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

static void protect_again(struct log *log, uint64_t page, uint64_t pages)
{
	protect(log, page, pages, UFFDIO_WRITEPROTECT_MODE_WP);
}

static void arm(struct log *log)
{
	uffd_register(log, UFFDIO_REGISTER_MODE_WP);
	protect_again(log, 0, log->area.pages);
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
	log->uffd = uffd_open(SYNC);
	log->reader = start_thread(lift_protection, log);
}

static void finish_sync(struct log *log)
{
	pthread_cancel(log->reader);
	pthread_join(log->reader, NULL);
	close(log->uffd);
}

static void rearm(struct log *log)
{
	uffd_protect_reported(log, protect_again);
}

static void prepare_async(struct log *log)
{
	uffd_prepare_scan(log, ASYNC);
}

static void scan(struct log *log)
{
	uffd_scan(log, ABI_PAGE_IS_WRITTEN, ABI_SCAN_WP_MATCHING | ABI_SCAN_CHECK_WPASYNC);
}

const struct mechanism uffd_wp = {
	.lacks = lacks_sync, .wakes = true, .prepare = prepare_sync, .finish = finish_sync, .arm = arm,
	.harvest = log_take_written, .rearm = rearm, .disarm = uffd_unregister,
};
const struct mechanism uffd_wp_async = {
	.lacks = lacks_async, .prepare = prepare_async, .finish = uffd_finish_scan, .arm = arm, .harvest = scan,
	.disarm = uffd_unregister,
};

// SPDX-License-Identifier: MIT OR Apache-2.0
/* Write-protection by userfaultfd of a shared mapping: a zapped entry leaves a marker that keeps it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../checks.h"

/* Linux 5.19: the host's headers may be older. */
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif

static int open_userfaultfd(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) < 0)
		fail("open a userfaultfd");
	return uffd;
}

static void protect(int uffd, volatile char *area, size_t size)
{
	struct uffdio_range range = { .start = (uintptr_t)area, .len = size };
	struct uffdio_register reg = { .range = range, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { .range = range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	if (ioctl(uffd, UFFDIO_REGISTER, &reg) < 0 || ioctl(uffd, UFFDIO_WRITEPROTECT, &wp) < 0)
		fail("write-protect by userfaultfd");
}

static uint64_t count_unprotected(volatile char *area, uint32_t pages)
{
	uint64_t unprotected = 0;

	for (size_t page = 0; page < pages; page++)
		if (!(pagemap_entry(area + page * PAGE) & PAGEMAP_UFFD_WP))
			unprotected++;
	return unprotected;
}

struct finding check_uffd_wp_markers(uint32_t pages)
{
	struct finding finding = { .tried = 2ull * pages };
	size_t size = pages * PAGE;
	int fd = tmpfs_file(size), uffd = open_userfaultfd();
	volatile char *area = map_or_fail(fd, size, MAP_SHARED);

	for (size_t page = 0; page < pages; page++)
		area[page * PAGE] = 1;
	protect(uffd, area, size);
	madvise((void *)area, size, MADV_DONTNEED);
	finding.failed = count_unprotected(area, pages);
	for (size_t page = 0; page < pages; page++)
		(void)area[page * PAGE];
	finding.failed += count_unprotected(area, pages);
	close(uffd);
	munmap((void *)area, size);
	close(fd);
	return finding;
}

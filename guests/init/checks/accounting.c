// SPDX-License-Identifier: MIT OR Apache-2.0
/* A removed entry also leaves the accounts: the page's mapcount and the process's resident set. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/process.h"
#include "../checks.h"

/* How often a page's frame is mapped: Documentation/admin-guide/mm/pagemap.rst. */
static uint64_t mapcount(int kpagecount, const volatile void *addr)
{
	uint64_t frame = pagemap_entry(addr) & PAGEMAP_PFN, count;

	if (pread(kpagecount, &count, sizeof(count), frame * sizeof(count)) != sizeof(count))
		fail("read /proc/kpagecount");
	return count;
}

/* Maps the file a second time and part of other pages, and zaps both; at exit the kernel checks the resident set. */
static void map_and_zap(int fd, uint32_t pages)
{
	size_t size = pages * PAGE;
	volatile char *shared = map_or_fail(fd, size, MAP_SHARED);
	volatile char *own = map_or_fail(-1, size, MAP_PRIVATE | MAP_ANONYMOUS);

	for (size_t page = 0; page < pages; page++) {
		(void)shared[page * PAGE];
		if (page % 100 < 70)
			own[page * PAGE] = 1;
	}
	madvise((void *)shared, size, MADV_DONTNEED);
	madvise((void *)own, size, MADV_DONTNEED);
}

struct finding check_accounting(uint32_t pages)
{
	size_t size = pages * PAGE;
	struct finding finding = { .tried = pages };
	int fd = tmpfs_file(size), kpagecount = open("/proc/kpagecount", O_RDONLY | O_CLOEXEC);
	volatile char *area = map_or_fail(fd, size, MAP_SHARED);
	unsigned int warnings = kernel_warnings(NULL, 0);
	pid_t child;

	if (kpagecount < 0)
		fail("open /proc/kpagecount");
	for (size_t page = 0; page < pages; page++)
		area[page * PAGE] = 1;
	child = fork_or_fail();
	if (child == 0) {
		map_and_zap(fd, pages);
		_exit(0);
	}
	wait_for(child);
	for (size_t page = 0; page < pages; page++)
		if (mapcount(kpagecount, area + page * PAGE) != 1)
			finding.failed++;
	finding.failed += kernel_warnings(NULL, 0) - warnings;
	munmap((void *)area, size);
	close(fd);
	close(kpagecount);
	return finding;
}

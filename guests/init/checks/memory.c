// SPDX-License-Identifier: MIT OR Apache-2.0
/* Files, memory and swap for the checks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/file.h"
#include "../../lib/linux/process.h"
#include "../checks.h"

#define SWAP_DEVICE "/dev/ram1"

int tmpfs_file(size_t size)
{
	int fd = memfd_create("check", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size) < 0)
		fail("make a tmpfs file");
	return fd;
}

void *map_or_fail(int fd, size_t size, int flags)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (addr == MAP_FAILED)
		fail("map a check's pages");
	madvise(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

void drop_caches(void)
{
	sync();
	write_file("/proc/sys/vm/drop_caches", "1");
}

uint64_t pagemap_entry(const volatile void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (uintptr_t)addr / PAGE * sizeof(uint64_t);
	uint64_t entry;

	if (fd < 0 || pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
		fail("read pagemap");
	close(fd);
	return entry;
}

/* Version 1 of the swap header: union swap_header in include/linux/swap.h. */
static void make_swap(int fd, uint64_t size)
{
	unsigned char page[PAGE] = { 0 };
	uint32_t version_and_last_page[2] = { 1, size / PAGE - 1 };

	memcpy(page + 1024, version_and_last_page, sizeof(version_and_last_page));
	memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, page, sizeof(page), 0) != sizeof(page) || fsync(fd) < 0)
		fail("make swap");
}

void use_swap(void)
{
	static bool used;
	int fd;

	if (used)
		return;
	fd = open(SWAP_DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail(SWAP_DEVICE);
	make_swap(fd, lseek(fd, 0, SEEK_END));
	close(fd);
	if (swapon(SWAP_DEVICE, 0) < 0)
		fail("swapon");
	used = true;
}

/* More than once: pages on a CPU's own lists (LRU batches) are passed over. */
void page_out(void *addr, size_t size)
{
	for (int attempt = 0; attempt < 3; attempt++)
		if (madvise(addr, size, MADV_PAGEOUT) < 0)
			fail("madvise PAGEOUT");
}

uint64_t count_swapped(volatile char *area, uint32_t pages)
{
	uint64_t swapped = 0;

	for (size_t page = 0; page < pages; page++)
		if (pagemap_entry(area + page * PAGE) & PAGEMAP_SWAPPED)
			swapped++;
	return swapped;
}

void fork_once(void)
{
	pid_t child = fork_or_fail();

	if (child == 0)
		_exit(0);
	wait_for(child);
}

volatile uint64_t *word(volatile char *area, size_t page)
{
	return (volatile uint64_t *)(area + page * PAGE);
}

void write_all_pages(volatile char *area, uint32_t pages, uint64_t value)
{
	for (size_t page = 0; page < pages; page++)
		*word(area, page) = value + page;
}

uint64_t count_wrong_words(volatile char *area, uint32_t pages, uint64_t value)
{
	uint64_t wrong = 0;

	for (size_t page = 0; page < pages; page++)
		if (*word(area, page) != value + page)
			wrong++;
	return wrong;
}

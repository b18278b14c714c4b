// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Shared and private mappings of files.
 *
 * A page of tmpfs that was read first is clean and mapped writable: a later write sets the dirty bit of one page-table
 * entry and nothing else. When that bit is lost, dropping caches drops the page, and what was written with it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/process.h"
#include "../checks.h"

#define DISK "/dev/ram0"

struct mapping {
	volatile char *addr;
	size_t size;
};

static void by_munmap(struct mapping map)
{
	munmap((void *)map.addr, map.size);
}

static void by_pieces(struct mapping map)
{
	size_t piece = 7 * PAGE;

	for (size_t at = 0; at < map.size; at += piece)
		munmap((void *)(map.addr + at), map.size - at < piece ? map.size - at : piece);
}

static void by_mapping_over(struct mapping map)
{
	mmap((void *)map.addr, map.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	munmap((void *)map.addr, map.size);
}

static void by_dontneed(struct mapping map)
{
	madvise((void *)map.addr, map.size, MADV_DONTNEED);
	munmap((void *)map.addr, map.size);
}

static void by_moving(struct mapping map)
{
	void *moved = mremap((void *)map.addr, map.size, 2 * map.size, MREMAP_MAYMOVE);

	if (moved == MAP_FAILED)
		fail("mremap");
	munmap(moved, 2 * map.size);
}

static void by_shrinking(struct mapping map)
{
	mremap((void *)map.addr, map.size, PAGE, 0);
	munmap((void *)map.addr, PAGE);
}

static void by_protecting(struct mapping map)
{
	mprotect((void *)map.addr, map.size, PROT_NONE);
	munmap((void *)map.addr, map.size);
}

/* The child writes through its own entries, which go with its exit; the parent does not write. */
static void by_exit(struct mapping map)
{
	pid_t child = fork_or_fail();

	if (child == 0) {
		for (size_t at = 0; at < map.size; at += PAGE)
			(*(volatile uint64_t *)(map.addr + at))++;
		_exit(0);
	}
	wait_for(child);
	munmap((void *)map.addr, map.size);
}

static void (*const ways[])(struct mapping) = {
	by_munmap, by_pieces, by_mapping_over, by_dontneed, by_moving, by_shrinking, by_protecting, by_exit,
};

#define WAYS COUNT_OF(ways)

static uint64_t value_of(unsigned int way, size_t page)
{
	return (uint64_t)(way + 1) << 32 | (page + 1);
}

static void write_and_tear_down(int fd, size_t size, unsigned int way)
{
	struct mapping map = { map_or_fail(fd, size, MAP_SHARED), size };

	for (size_t at = 0; at < size; at += PAGE)
		(void)map.addr[at];
	for (size_t at = 0; at < size; at += PAGE)
		*(volatile uint64_t *)(map.addr + at) = value_of(way, at / PAGE) - (ways[way] == by_exit);
	ways[way](map);
}

static uint64_t count_wrong(int fd, size_t size, unsigned int way)
{
	uint64_t found, wrong = 0;

	for (size_t at = 0; at < size; at += PAGE)
		if (pread(fd, &found, sizeof(found), at) != sizeof(found) || found != value_of(way, at / PAGE))
			wrong++;
	return wrong;
}

/*
 * Whether the disk keeps what msync() wrote back before the mapping was torn down. On Linux 7.3.4, unpatched and without
 * Xen, /dev/ram0 reads as zeroes from the 33rd page on, which would be taken for lost dirty bits.
 */
static bool disk_keeps(size_t size)
{
	int fd = open(DISK, O_RDWR | O_CLOEXEC);
	volatile char *addr;
	uint64_t wrong;

	if (fd < 0)
		fail(DISK);
	addr = map_or_fail(fd, size, MAP_SHARED);
	for (size_t at = 0; at < size; at += PAGE)
		(void)addr[at];
	for (size_t at = 0; at < size; at += PAGE)
		*(volatile uint64_t *)(addr + at) = value_of(WAYS, at / PAGE);
	if (msync((void *)addr, size, MS_SYNC) < 0)
		fail(DISK);
	munmap((void *)addr, size);
	drop_caches();
	wrong = count_wrong(fd, size, WAYS);
	close(fd);
	return !wrong;
}

struct finding check_shared_files(uint32_t pages)
{
	size_t size = pages * PAGE;
	struct finding finding = { 0 };
	int files = disk_keeps(size) ? 2 : 1;

	for (unsigned int way = 0; way < WAYS; way++) {
		int fds[2] = { tmpfs_file(size), open(DISK, O_RDWR | O_CLOEXEC) };

		for (int i = 0; i < files; i++) {
			if (fds[i] < 0)
				fail(DISK);
			write_and_tear_down(fds[i], size, way);
			if (i == 1)
				fsync(fds[i]);
			drop_caches();
			finding.tried += pages;
			finding.failed += count_wrong(fds[i], size, way);
			close(fds[i]);
		}
	}
	return finding;
}

/* Every third page is a private copy, and so are runs of pages. */
static bool is_copy(size_t page)
{
	return page % 3 == 0 || page % 64 < 20;
}

struct finding check_private_copies(uint32_t pages)
{
	size_t size = pages * PAGE;
	struct finding finding = { .tried = pages };
	int fd = tmpfs_file(size);
	volatile char *file = map_or_fail(fd, size, MAP_SHARED);
	volatile char *copy = map_or_fail(fd, size, MAP_PRIVATE);

	for (size_t page = 0; page < pages; page++) {
		file[page * PAGE] = 1;
		(void)copy[page * PAGE];
		if (is_copy(page))
			copy[page * PAGE] = 2;
	}
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) < 0)
		fail("punch a hole");
	for (size_t page = 0; page < pages; page++)
		if (copy[page * PAGE] != (is_copy(page) ? 2 : 0))
			finding.failed++;
	munmap((void *)file, size);
	munmap((void *)copy, size);
	close(fd);
	return finding;
}

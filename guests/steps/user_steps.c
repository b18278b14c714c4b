// SPDX-License-Identifier: MIT OR Apache-2.0
/* What user space pays per page of anonymous memory, with large pages off: touching it, freeing it, moving it, forking with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/page.h"
#include "../lib/linux/process.h"
#include "../lib/results.h"
#include "steps.h"

struct area {
	volatile char *addr;
	size_t size;
};

static void write_pages(struct area area)
{
	for (size_t i = 0; i < area.size; i += PAGE)
		area.addr[i] = 1;
}

static void read_pages(struct area area)
{
	for (size_t i = 0; i < area.size; i += PAGE)
		(void)area.addr[i];
}

static void unmap_pages(struct area area)
{
	if (munmap((void *)area.addr, area.size) < 0)
		fail("munmap");
}

static void dontneed_pages(struct area area)
{
	if (madvise((void *)area.addr, area.size, MADV_DONTNEED) < 0)
		fail("madvise DONTNEED");
}

/* The child of the timed fork(): it waits until the pipe is closed, so that none of its work is timed. */
static struct {
	pid_t pid;
	int pipe[2];
} child;

static void write_pages_and_make_pipe(struct area area)
{
	write_pages(area);
	if (pipe2(child.pipe, O_CLOEXEC) < 0)
		fail("pipe");
}

static void fork_child(struct area area)
{
	char byte;

	(void)area;
	child.pid = fork_or_fail();
	if (child.pid == 0) {
		close(child.pipe[1]);
		_exit(read(child.pipe[0], &byte, 1) == 0 ? 0 : 1);
	}
}

static void end_child(struct area area)
{
	close(child.pipe[1]);
	wait_for(child.pid);
	close(child.pipe[0]);
	unmap_pages(area);
}

#define TABLE (512 * PAGE)

/* Where pages are moved to. Not a multiple of a page table away, or mremap() would move whole tables. */
static struct {
	void *whole;
	size_t size;
	struct area area;
	int uffd;
} target;

static void map_target(size_t size, int protection)
{
	target.size = size + 2 * TABLE;
	target.whole = mmap(NULL, target.size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (target.whole == MAP_FAILED)
		fail("map where pages are moved to");
	madvise(target.whole, target.size, MADV_NOHUGEPAGE);
}

static void write_pages_and_map_target(struct area area)
{
	size_t away;

	write_pages(area);
	map_target(area.size, PROT_NONE);
	away = ((uintptr_t)area.addr + PAGE - (uintptr_t)target.whole) % TABLE;
	target.area = (struct area){ (char *)target.whole + away, area.size };
}

static void mremap_pages(struct area area)
{
	if (mremap((void *)area.addr, area.size, area.size, MREMAP_MAYMOVE | MREMAP_FIXED, target.area.addr) == MAP_FAILED)
		fail("mremap");
}

static void unmap_target(struct area area)
{
	(void)area;
	if (munmap(target.whole, target.size) < 0)
		fail("munmap");
}

static void free_pages(struct area area)
{
	if (madvise((void *)area.addr, area.size, MADV_FREE) < 0)
		fail("madvise FREE");
}

/* Of Linux 6.8: older headers lack it. */
struct uffd_move {
	uint64_t to, from, bytes, mode;
	int64_t moved;
};

#define UFFD_MOVE _IOWR(UFFDIO, 5, struct uffd_move)
#define UFFD_MOVE_FEATURE (1 << 16)

static bool open_uffd(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	target.uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (target.uffd < 0)
		return false;
	if (ioctl(target.uffd, UFFDIO_API, &api) == 0)
		return true;
	close(target.uffd);
	return false;
}

static bool can_move(void)
{
	bool can = open_uffd(UFFD_MOVE_FEATURE);

	if (can)
		close(target.uffd);
	return can;
}

static void write_pages_and_register_target(struct area area)
{
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	write_pages(area);
	map_target(area.size, PROT_READ | PROT_WRITE);
	target.area = (struct area){ target.whole, area.size };
	range.range = (struct uffdio_range){ (uintptr_t)target.whole, target.size };
	if (!open_uffd(UFFD_MOVE_FEATURE) || ioctl(target.uffd, UFFDIO_REGISTER, &range) < 0)
		fail("register where pages are moved to");
}

static void move_pages(struct area area)
{
	struct uffd_move move = { (uintptr_t)target.area.addr, (uintptr_t)area.addr, area.size, 0, 0 };

	if (ioctl(target.uffd, UFFD_MOVE, &move) < 0)
		fail("UFFDIO_MOVE");
}

static void unmap_and_close_target(struct area area)
{
	unmap_target(area);
	unmap_pages(area);
	close(target.uffd);
}

static bool always(void)
{
	return true;
}

static void nothing(struct area area)
{
	(void)area;
}

static const struct operation {
	const char *name;
	bool (*is_possible)(void);
	void (*prepare)(struct area area);
	void (*timed)(struct area area);
	void (*finish)(struct area area);
} operations[] = {
	{ "touch-written", always, nothing, write_pages, unmap_pages },
	{ "touch-zero", always, nothing, read_pages, unmap_pages },
	{ "munmap-written", always, write_pages, unmap_pages, nothing },
	{ "munmap-zero", always, read_pages, unmap_pages, nothing },
	{ "dontneed-written", always, write_pages, dontneed_pages, unmap_pages },
	{ "fork", always, write_pages_and_make_pipe, fork_child, end_child },
	{ "mremap-written", always, write_pages_and_map_target, mremap_pages, unmap_target },
	{ "free-written", always, write_pages, free_pages, unmap_pages },
	{ "uffd-move-written", can_move, write_pages_and_register_target, move_pages, unmap_and_close_target },
};

void step_user(const char *name, uint32_t pages, uint32_t mark)
{
	const struct operation *operation = find_named(operations, name);
	struct area area = { .size = pages * PAGE };
	uint64_t start, taken;

	if (!operation->is_possible())
		return;
	area.addr = mmap(NULL, area.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area.addr == MAP_FAILED)
		fail("map pages");
	madvise((void *)area.addr, area.size, MADV_NOHUGEPAGE);
	operation->prepare(area);
	await_start();
	mark_begin(mark);
	start = ticks();
	operation->timed(area);
	taken = ticks() - start;
	mark_end(mark);
	operation->finish(area);
	report(USER_RESULT, name, pages, (int)mark, taken);
}

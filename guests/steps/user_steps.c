// SPDX-License-Identifier: MIT OR Apache-2.0
/* What user space pays per page of anonymous memory, with large pages off: touching it, freeing it, forking with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
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

static void nothing(struct area area)
{
	(void)area;
}

static const struct operation {
	const char *name;
	void (*prepare)(struct area area);
	void (*timed)(struct area area);
	void (*finish)(struct area area);
} operations[] = {
	{ "touch-written", nothing, write_pages, unmap_pages },
	{ "touch-zero", nothing, read_pages, unmap_pages },
	{ "munmap-written", write_pages, unmap_pages, nothing },
	{ "munmap-zero", read_pages, unmap_pages, nothing },
	{ "dontneed-written", write_pages, dontneed_pages, unmap_pages },
	{ "fork", write_pages_and_make_pipe, fork_child, end_child },
};

void step_user(const char *name, uint32_t pages, uint32_t mark)
{
	const struct operation *operation = find_named(operations, name);
	struct area area = { .size = pages * PAGE };
	uint64_t start, taken;

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

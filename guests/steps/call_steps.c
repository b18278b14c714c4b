// SPDX-License-Identifier: MIT OR Apache-2.0
/* What user space pays for system calls and for switches between two processes that share a CPU. */
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/process.h"
#include "../lib/results.h"
#include "steps.h"

/* Untimed calls: the first of a kind takes paths that later ones do not. */
#define WARM_UP 64u

/* Two pipes, as in lmbench's lat_ctx: each process waits for what the other writes. */
struct pipes {
	int there[2];
	int back[2];
	pid_t child;
};

static void pass(int fd)
{
	if (write(fd, "x", 1) != 1)
		fail("write to a pipe");
}

static void await(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		fail("read from a pipe");
}

static void call_getppid(const struct pipes *pipes, uint32_t count)
{
	(void)pipes;
	for (uint32_t i = 0; i < count; i++)
		syscall(SYS_getppid);
}

/* A byte through a pipe to the same process: two calls, each under locks that turn interrupts off and on. */
static void call_pipe(const struct pipes *pipes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		pass(pipes->there[1]);
		await(pipes->there[0]);
	}
}

/* To the other process and back: two switches. */
static void call_switch(const struct pipes *pipes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 2) {
		pass(pipes->there[1]);
		await(pipes->back[0]);
	}
}

/* The other process: answers until the pipe is closed. */
static void answer(const struct pipes *pipes)
{
	char byte;

	close(pipes->there[1]);
	close(pipes->back[0]);
	while (read(pipes->there[0], &byte, 1) == 1)
		pass(pipes->back[1]);
	_exit(0);
}

static const struct operation {
	const char *name;
	void (*timed)(const struct pipes *pipes, uint32_t count);
	int partner;
} operations[] = {
	{ "getppid", call_getppid, 0 },
	{ "pipe-byte", call_pipe, 0 },
	{ "context-switch", call_switch, 1 },
};

static void begin(const struct operation *operation, struct pipes *pipes)
{
	if (pipe(pipes->there) < 0 || pipe(pipes->back) < 0)
		fail("make pipes");
	if (!operation->partner)
		return;
	pipes->child = fork_or_fail();
	if (!pipes->child)
		answer(pipes);
	close(pipes->there[0]);
	close(pipes->back[1]);
	pipes->there[0] = pipes->back[1] = -1;
}

static void end(const struct operation *operation, struct pipes *pipes)
{
	close(pipes->there[1]);
	close(pipes->back[0]);
	if (operation->partner) {
		wait_for(pipes->child);
		return;
	}
	close(pipes->there[0]);
	close(pipes->back[1]);
}

void step_call(const char *name, uint32_t count, uint32_t mark)
{
	const struct operation *operation = find_named(operations, name);
	struct pipes pipes;
	uint64_t start, taken;

	/* Switches come in pairs. */
	count += count & 1;
	begin(operation, &pipes);
	await_start();
	operation->timed(&pipes, WARM_UP);
	mark_begin(mark);
	start = ticks();
	operation->timed(&pipes, count);
	taken = ticks() - start;
	mark_end(mark);
	end(operation, &pipes);
	report(USER_RESULT, name, count, (int)mark, taken);
}

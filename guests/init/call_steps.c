// SPDX-License-Identifier: MIT OR Apache-2.0
/* What user space pays for system calls and for switches between two processes that share a CPU. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "report.h"
#include "steps.h"

/* Before anything is timed: the first of a kind takes paths that the others do not. */
#define WARM_UP 64u

/* Two pipes, as lmbench's lat_ctx has them: what one process writes the other waits for. */
struct pipes {
	int there[2];
	int back[2];
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

/* A byte through a pipe to oneself: two calls, each under locks that turn interrupts off and on. */
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

/* The other process: answers until nobody can ask any more. */
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

static const struct operation *find_operation(const char *name)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (!strcmp(operations[i].name, name))
			return &operations[i];
	errno = EINVAL;
	fail(name);
}

static void begin(const struct operation *operation, struct pipes *pipes)
{
	pid_t child;

	if (pipe(pipes->there) < 0 || pipe(pipes->back) < 0)
		fail("make pipes");
	if (!operation->partner)
		return;
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child)
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
		wait(NULL);
		return;
	}
	close(pipes->there[0]);
	close(pipes->back[1]);
}

void step_call(const char *name, uint32_t count, uint32_t mark)
{
	const struct operation *operation = find_operation(name);
	struct pipes pipes;
	uint64_t start, taken;

	/* What is counted for each of them must be whole. */
	count += count & 1;
	begin(operation, &pipes);
	operation->timed(&pipes, WARM_UP);
	mark_begin(mark);
	start = ticks();
	operation->timed(&pipes, count);
	taken = ticks() - start;
	mark_end(mark);
	end(operation, &pipes);
	report("{\"kind\":\"user\",\"operation\":\"%s\",\"pages\":%u,\"mark\":%d,\"instructions\":%llu}", name, count,
	       (int)mark, (unsigned long long)taken);
}

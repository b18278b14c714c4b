// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/steady/steady.h"
#include "../lib/marks.h"

#define FOLDER "/.pagetoll"
/* Of a program's output: as many bytes as fit into a report when each of them is escaped. */
#define TAIL 600
/* As shells say it. */
#define NOT_RUN 127

static void mount_or_fail(const char *where, const char *options)
{
	if (mkdir(where, 0755) < 0 && errno != EEXIST)
		fail(where);
	if (mount("tmpfs", where, "tmpfs", 0, options) < 0)
		fail(where);
}

void program_prepare(void)
{
	/* Adopts what the program leaves running, so that it can be ended. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!access(FOLDER, F_OK))
		return;
	mount_or_fail(FOLDER, "size=16m");
	mount_or_fail("/dev/shm", "mode=1777");
	mkdir("/tmp", 0755);
	chmod("/tmp", 01777);
}

/* In the child, which shares this process's memory until then. */
__attribute__((noreturn)) static void execute(const struct program *program, int output)
{
	int input = open("/dev/null", O_RDONLY);

	setsid();
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	close(input);
	personality(ADDR_NO_RANDOMIZE);
	if (program->marks == MAPPED)
		ptrace(PTRACE_TRACEME, 0, 0, 0);
	execve(program->words[0], program->words, program->environment);
	dprintf(STDERR_FILENO, "%s: %s\n", program->words[0], strerror(errno));
	_exit(NOT_RUN);
}

static pid_t start(const struct program *program, int output)
{
	pid_t child = vfork();

	if (child < 0)
		fail("vfork");
	if (!child)
		execute(program, output);
	return child;
}

static int end_of(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR)
			fail("wait for the program");
	return status;
}

static void copy_maps(pid_t child)
{
	char path[64], bytes[4096];
	int from, to = open(MAPS, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0 || to < 0)
		fail(path);
	while ((got = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, got) != got)
			fail(MAPS);
	close(from);
	close(to);
}

/* Follows a traced program, whose first stop is that of its execve(). */
static void follow(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);

		if (signal == SIGTRAP) {
			if (status >> 16 == PTRACE_EVENT_EXIT)
				copy_maps(child);
			else
				ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXIT);
			signal = 0;
		}
		ptrace(PTRACE_CONT, child, 0, signal);
	}
}

static void end_the_rest(void)
{
	do
		kill(-1, SIGKILL);
	while (wait(NULL) > 0);
}

/* Processes that were killed for want of memory since boot: /proc/vmstat. */
static unsigned long killed_for_memory(void)
{
	FILE *file = fopen("/proc/vmstat", "re");
	unsigned long count = 0;
	char line[128];

	if (!file)
		fail("open /proc/vmstat");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "oom_kill %lu", &count) == 1)
			break;
	fclose(file);
	return count;
}

/* The end of what it wrote, of a program that failed. */
static void read_tail(char *tail, size_t size)
{
	int fd = open(OUTPUT, O_RDONLY | O_CLOEXEC);
	struct stat found;
	ssize_t got;

	if (fd < 0 || fstat(fd, &found) < 0)
		fail(OUTPUT);
	got = pread(fd, tail, size - 1, found.st_size < (off_t)size ? 0 : found.st_size - (off_t)size + 1);
	tail[got < 0 ? 0 : got] = 0;
	for (ssize_t i = 0; i < got; i++)
		if (!tail[i])
			tail[i] = ' ';
	close(fd);
}

static bool is_full(void)
{
	struct statvfs folder;

	if (statvfs(FOLDER, &folder) < 0)
		fail(FOLDER);
	return !folder.f_bfree;
}

void program_run(const struct program *program)
{
	int output = open(OUTPUT, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600), status;
	unsigned long killed = killed_for_memory();
	uint64_t began, taken;
	char tail[TAIL] = "";
	bool full;

	if (output < 0)
		fail(OUTPUT);
	if (program->marks == MAPPED) {
		follow(start(program, output));
		end_the_rest();
		close(output);
		return;
	}
	rest();
	if (program->marks == AROUND)
		MARK_NOP(MARK_BEGIN);
	began = ticks();
	status = end_of(start(program, output));
	taken = ticks() - began;
	if (program->marks == AROUND)
		MARK_NOP(MARK_END);
	end_the_rest();
	close(output);
	if (status)
		read_tail(tail, sizeof(tail));
	killed = killed_for_memory() - killed;
	full = is_full();
	report("{\"kind\":\"program\",\"status\":%d,\"instructions\":%llu,\"killed_for_memory\":%s,\"output_full\":%s,"
	       "\"output\":\"%s\"}",
	       status, (unsigned long long)taken, killed ? "true" : "false", full ? "true" : "false", tail);
	if (status || killed || full) {
		report("{\"kind\":\"done\"}");
		end_guest();
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first and only process of a lab guest: runs the steps of /preparation, a line each; without /order it stops the
 * machine until the host has delivered that (receive.h); runs its steps, and powers off.
 *
 *   module PATH [PARAMETERS]               load a kernel module
 *   settle LIMIT_S                         see settle.h
 *   steady                                 see steady.h
 *   unplug VENDOR DEVICE                   see pci.h
 *   rescan                                 find it again
 *   conformance FILE
 *   check NAME PAGES                       see checks.h
 *   catch NAME PAGES
 *   kernel-log
 *   run PROGRAM FILE                       a program with one argument, which reports its own results
 *   try SIGNAL MS PROGRAM ARGUMENT..       any other program, which gets the signal after MS unless that is 0; its exit
 *                                          code is reported once all of its descendants have ended
 *   publish FILE                           its bytes, after those of the files before it
 *
 * All that measures is in ../steps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/guest/pci.h"
#include "../lib/linux/process.h"
#include "../lib/linux/steady/steady.h"
#include "../lib/shared_memory.h"
#include "../steps/steps.h"
#include "checks.h"
#include "conformance.h"
#include "receive.h"
#include "settle.h"

/* Of a command. */
#define MOST_WORDS 31

static void mount_or_fail(const char *type, const char *where)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, NULL) < 0 && errno != EBUSY)
		fail(where);
}

static void use_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	if (fd < 0)
		end_guest();
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void step_module(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, parameters, 0) < 0 && errno != EEXIST))
		fail(path);
	close(fd);
}

/* A program that fails has reported why, or was killed. */
static void step_run(char *program, char *file)
{
	char *const arguments[] = { program, file, NULL };
	pid_t child = fork_or_fail();

	if (!child) {
		execv(program, arguments);
		fail(program);
	}
	if (wait_for(child))
		fail_with(program, ECHILD);
}

/* As shells say it: 128 and more is a signal. */
static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void step_try(int signal, unsigned int after_ms, char *words)
{
	char *arguments[MOST_WORDS + 1] = { NULL }, *rest = NULL;
	size_t count = 0;
	pid_t child;
	int status;

	for (char *word = strtok_r(words, " ", &rest); word && count < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
		arguments[count++] = word;
	child = fork_or_fail();
	if (!child) {
		execv(arguments[0], arguments);
		_exit(127);
	}
	if (after_ms) {
		usleep(after_ms * 1000);
		/* As those who end a whole cgroup: SIGTERM goes to all but this process. */
		kill(signal == SIGTERM ? -1 : child, signal);
	}
	status = wait_for(child);
	/* Whatever has no parent any more is the first process's child. */
	while (wait(NULL) > 0)
		;
	report("{\"kind\":\"tried\",\"code\":%d}", exit_code(status));
}

static void step_publish(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char bytes[65536];
	ssize_t got;

	if (fd < 0)
		fail(path);
	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		shared_append(bytes, got);
	close(fd);
	shared_report(path);
}

void await_start(void)
{
	rest();
}

static void run_step(const char *line)
{
	char word[64], a[256], b[256] = "";
	unsigned int signal, x, y;

	if (sscanf(line, "module %255s %255[^\n]", a, b) >= 1)
		step_module(a, b);
	else if (sscanf(line, "settle %u", &x) == 1)
		settle(x);
	else if (!strcmp(line, "steady"))
		steady();
	else if (sscanf(line, "unplug %x %x", &x, &y) == 2)
		pci_unplug(x, y);
	else if (!strcmp(line, "rescan"))
		pci_rescan();
	else if (sscanf(line, "conformance %255s", a) == 1)
		step_conformance(a);
	else if (sscanf(line, "check %63s %u", word, &x) == 2)
		step_check(word, x);
	else if (sscanf(line, "catch %63s %u", word, &x) == 2)
		step_catch(word, x);
	else if (!strcmp(line, "kernel-log"))
		step_kernel_log();
	else if (sscanf(line, "run %255s %255s", a, b) == 2)
		step_run(a, b);
	else if (sscanf(line, "try %u %u %255[^\n]", &signal, &x, a) == 3)
		step_try(signal, x, a);
	else if (sscanf(line, "publish %255s", a) == 1)
		step_publish(a);
	else if (!run_measuring_step(line))
		fail_with(line, EINVAL);
}

static void run_line(const char *line)
{
	line_begin();
	run_step(line);
	line_end();
}

int main(void)
{
	mount_or_fail("devtmpfs", "/dev");
	use_console();
	mount_or_fail("proc", "/proc");
	mount_or_fail("sysfs", "/sys");
	report_hello();
	stop_access_sampling();
	for_each_line("/preparation", run_step);
	if (access("/order", F_OK))
		receive_files();
	for_each_line("/order", run_line);
	MARK_NOP(MARK_STEP);
	report("{\"kind\":\"done\"}");
	end_guest();
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first and only process of a lab guest: carries out the order in /order, a step a line, and powers off.
 *
 *   module PATH                            load a kernel module
 *   settle LIMIT_S                         see settle.h
 *   pages N                                pages, or repetitions, of the steps that follow
 *   clear MECHANISM BATCH                  see steps.h
 *   release
 *   race MECHANISM BATCH DIRTIED LIMIT_MS
 *   user OPERATION
 *   set MECHANISM
 *   repeat OPERATION MECHANISM
 *   call OPERATION
 *   conformance FILE
 *   check NAME PAGES                       see checks.h
 *   catch NAME PAGES
 *   kernel-log
 *   trace-begin BUFFER_PAGES               capture Xen's trace; steps from here on are marked with their number
 *   trace-end                              hand the capture over
 *   run PROGRAM FILE                       a program with one argument, which reports lines of its own
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../xen-probe/xen_probe_abi.h"
#include "checks.h"
#include "privcmd.h"
#include "report.h"
#include "settle.h"
#include "shared_memory.h"
#include "steps.h"
#include "xentrace.h"

static struct {
	uint32_t pages;
	uint32_t step;
	bool tracing;
} state = { .pages = 1 };

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
		power_off();
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

/* Reads a one-line file of sysfs; an empty string when it is not there. */
static void read_line(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);

	out[got > 0 ? got : 0] = 0;
	out[strcspn(out, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

static void step_hello(void)
{
	char type[32], major[16], minor[16], extra[64], version[256];
	struct utsname name;

	uname(&name);
	json_escape(version, sizeof(version), name.version);
	read_line("/sys/hypervisor/type", type, sizeof(type));
	read_line("/sys/hypervisor/version/major", major, sizeof(major));
	read_line("/sys/hypervisor/version/minor", minor, sizeof(minor));
	read_line("/sys/hypervisor/version/extra", extra, sizeof(extra));
	report("{\"kind\":\"hello\",\"release\":\"%s\",\"version\":\"%s\",\"hypervisor\":\"%s\",\"xen\":\"%s%s%s%s\",\"cpus\":%ld}",
	       name.release, version, type, major, *minor ? "." : "", minor, extra, sysconf(_SC_NPROCESSORS_ONLN));
}

static int load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return -1;
	ret = syscall(SYS_finit_module, fd, "", 0);
	if (ret < 0 && errno == EEXIST)
		ret = 0;
	close(fd);
	return ret;
}

static void step_module(const char *path)
{
	if (load_module(path) < 0)
		fail(path);
}

static void step_trace_begin(uint32_t pages)
{
	privcmd_open();
	xentrace_begin(pages);
	state.tracing = true;
}

static void step_trace_end(void)
{
	size_t size;
	const void *data = xentrace_end(&size);

	state.tracing = false;
	shared_memory_put("xentrace", data, size);
}

/* A program that fails has said why, or ended without a word. */
static void step_run(char *program, char *file)
{
	char *const arguments[] = { program, file, NULL };
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child) {
		execv(program, arguments);
		fail(program);
	}
	if (waitpid(child, &status, 0) < 0 || status) {
		errno = ECHILD;
		fail(program);
	}
}

static uint32_t mark(void)
{
	return state.tracing ? state.step : NO_MARK;
}

void mark_begin(uint32_t id)
{
	if (id != NO_MARK)
		privcmd_mark(XEN_PROBE_MARK_BEGIN, id);
	XEN_PROBE_TELL(XEN_PROBE_MARK_BEGIN);
}

void mark_end(uint32_t id)
{
	XEN_PROBE_TELL(XEN_PROBE_MARK_END);
	if (id != NO_MARK)
		privcmd_mark(XEN_PROBE_MARK_END, id);
}

/* Takes one line of the order apart and carries it out. */
static void run_step(const char *line)
{
	char word[64], other[64], a[256], b[256];
	unsigned int x, y;
	unsigned long long n;

	if (sscanf(line, "module %255s", a) == 1)
		step_module(a);
	else if (sscanf(line, "settle %u", &x) == 1)
		settle(x);
	else if (sscanf(line, "pages %u", &x) == 1)
		state.pages = x;
	else if (sscanf(line, "clear %63s %u", word, &x) == 2)
		step_clear(word, x, state.pages, mark());
	else if (sscanf(line, "race %63s %u %llu %u", word, &x, &n, &y) == 4)
		step_race(word, x, n, y);
	else if (sscanf(line, "user %63s", word) == 1)
		step_user(word, state.pages, mark());
	else if (sscanf(line, "set %63s", word) == 1)
		step_set(word, state.pages, mark());
	else if (sscanf(line, "repeat %63s %63s", word, other) == 2)
		step_repeat(word, other, state.pages, mark());
	else if (sscanf(line, "call %63s", word) == 1)
		step_call(word, state.pages, mark());
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
	else if (sscanf(line, "trace-begin %u", &x) == 1)
		step_trace_begin(x);
	else if (!strcmp(line, "release"))
		step_release();
	else if (!strcmp(line, "trace-end"))
		step_trace_end();
	else {
		errno = EINVAL;
		fail(line);
	}
}

int main(void)
{
	char line[512];
	FILE *order;

	mount_or_fail("devtmpfs", "/dev");
	use_console();
	mount_or_fail("proc", "/proc");
	mount_or_fail("sysfs", "/sys");
	step_hello();
	stop_access_sampling();
	order = fopen("/order", "re");
	if (!order)
		fail("open /order");
	while (fgets(line, sizeof(line), order)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line)
			continue;
		state.step++;
		XEN_PROBE_TELL(XEN_PROBE_MARK_STEP);
		run_step(line);
		if (state.tracing)
			xentrace_drain();
	}
	XEN_PROBE_TELL(XEN_PROBE_MARK_STEP);
	report("{\"kind\":\"done\"}");
	power_off();
}

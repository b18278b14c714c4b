// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first and only process of a lab guest: runs the order in /order, a step a line, and powers off.
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
 *   trace-begin BUFFER_PAGES               capture Xen's trace; from here on steps are marked with their number
 *   trace-end                              report the capture
 *   run PROGRAM FILE                       a program with one argument, which reports its own results
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/process.h"
#include "../lib/xentrace.h"
#include "checks.h"
#include "privcmd.h"
#include "settle.h"
#include "steps.h"

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

static void step_hello(void)
{
	char type[32], major[16], minor[16], extra[64];
	struct utsname name;

	uname(&name);
	read_line("/sys/hypervisor/type", type, sizeof(type));
	read_line("/sys/hypervisor/version/major", major, sizeof(major));
	read_line("/sys/hypervisor/version/minor", minor, sizeof(minor));
	read_line("/sys/hypervisor/version/extra", extra, sizeof(extra));
	report("{\"kind\":\"hello\",\"release\":\"%s\",\"version\":\"%s\",\"hypervisor\":\"%s\",\"xen\":\"%s%s%s%s\","
	       "\"cpus\":%ld}",
	       name.release, name.version, type, major, *minor ? "." : "", minor, extra, sysconf(_SC_NPROCESSORS_ONLN));
}

static void step_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		fail(path);
	close(fd);
}

static long sysctl(struct xen_sysctl *call)
{
	if (mlock(call, sizeof(*call)) < 0)
		fail("lock a hypercall's memory");
	return privcmd_hypercall(HYPERVISOR_SYSCTL, (uint64_t)call, 0);
}

static void *map_of_xen(const uint64_t *frames, unsigned int count, bool writable)
{
	return privcmd_map(DOMID_XEN, frames, count, writable ? PROT_READ | PROT_WRITE : PROT_READ);
}

static void step_trace_begin(uint32_t pages)
{
	static const struct xentrace_access access = { sysctl, map_of_xen };

	privcmd_open();
	xentrace_begin(&access, pages);
	state.tracing = true;
}

static void step_trace_end(void)
{
	state.tracing = false;
	xentrace_end();
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

static uint32_t mark(void)
{
	return state.tracing ? state.step : NO_MARK;
}

void mark_begin(uint32_t id)
{
	if (id != NO_MARK)
		privcmd_mark(MARK_BEGIN, id);
	MARK_NOP(MARK_BEGIN);
}

void mark_end(uint32_t id)
{
	MARK_NOP(MARK_END);
	if (id != NO_MARK)
		privcmd_mark(MARK_END, id);
}

/* Runs one line of the order. */
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
	else if (!strcmp(line, "foreign-release"))
		step_foreign_release();
	else if (sscanf(line, "foreign %63s %u", word, &x) == 2)
		step_foreign(word, x, state.pages, mark());
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
	else
		fail_with(line, EINVAL);
}

static void run_line(const char *line)
{
	state.step++;
	MARK_NOP(MARK_STEP);
	run_step(line);
	if (state.tracing)
		xentrace_drain();
}

int main(void)
{
	mount_or_fail("devtmpfs", "/dev");
	use_console();
	mount_or_fail("proc", "/proc");
	mount_or_fail("sysfs", "/sys");
	step_hello();
	stop_access_sampling();
	for_each_line("/order", run_line);
	MARK_NOP(MARK_STEP);
	report("{\"kind\":\"done\"}");
	power_off();
}

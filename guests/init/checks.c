// SPDX-License-Identifier: MIT OR Apache-2.0
/* The steps check and kernel-log. */
#define _GNU_SOURCE
#include "checks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/process.h"

/* klogctl(2) */
#define SYSLOG_ACTION_READ_ALL 3
#define LOG_SIZE (1 << 20)
/* As the text of the error says. */
#define CATCH_SECONDS 60

static const struct check checks[] = {
#define ENTRY(name, function) { name, function },
	EACH_CHECK(ENTRY)
#undef ENTRY
};

/* A catch ends at the first failure. */
static bool catching;

bool needs_round(const struct finding *finding, uint32_t pages)
{
	return finding->tried < pages && !(catching && finding->failed);
}

/*
 * Starts a process that ends the guest when a broken kernel loops: after ten times what a check takes. None where the guest
 * has several CPUs, whose clock is that of the host, which may be busy.
 */
static pid_t start_alarm(void)
{
	pid_t child;

	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		return 0;
	child = fork_or_fail();
	if (child)
		return child;
	sleep(CATCH_SECONDS);
	fail_with("end a check within 60 s", ETIME);
}

void step_catch(const char *name, uint32_t pages)
{
	pid_t alarm = start_alarm();

	/* Of a loop that lets no other process run, after 20 s; the detector is off with several CPUs. */
	write_file("/proc/sys/kernel/softlockup_panic", "1");
	catching = true;
	step_check(name, pages);
	catching = false;
	if (alarm) {
		kill(alarm, SIGKILL);
		wait_for(alarm);
	}
}

void step_check(const char *name, uint32_t pages)
{
	/* Else the process that has it dies, and who waits for that, or for a lock that it held, does for ever. */
	write_file("/proc/sys/kernel/panic_on_oops", "1");
	run_check(checks, name, pages);
}

/* Lines of WARN(), BUG(), lockup detectors and the checks of mm/ begin like this. */
static const char *const alarms[] = {
	"WARNING:", "BUG:", "Call Trace:", "Bad rss-counter", "Bad page", "bad pte", "rcu: INFO:", "Oops", "UBSAN",
	"MC result", "INFO: trying to register non-static key",
};

static bool is_alarm(const char *line)
{
	for (size_t i = 0; i < COUNT_OF(alarms); i++)
		if (strstr(line, alarms[i]))
			return true;
	return false;
}

static bool refusals_expected;

void expect_refusals(void)
{
	refusals_expected = true;
}

/* Whether an alarm is of an update that Xen refused on request; `in_refusal` is whether the alarm before it was. */
static bool is_of_refusal(const char *line, bool in_refusal)
{
	bool follows = strstr(line, "MC result") || strstr(line, "Call Trace:");

	return refusals_expected && (strstr(line, " xen_mc_flush+") || (in_refusal && follows));
}

unsigned int kernel_warnings(char *first, size_t size)
{
	char *log = calloc(1, LOG_SIZE), *rest = log, *line;
	unsigned int count = 0;
	/* The log holds what was written last: it may begin within what was said of a refusal. */
	bool in_refusal = true;

	if (!log || klogctl(SYSLOG_ACTION_READ_ALL, log, LOG_SIZE - 1) < 0)
		fail("read the kernel's log");
	while ((line = strsep(&rest, "\n"))) {
		if (!is_alarm(line))
			continue;
		in_refusal = is_of_refusal(line, in_refusal);
		if (!in_refusal && !count++ && first)
			snprintf(first, size, "%s", line);
	}
	free(log);
	return count;
}

void step_kernel_log(void)
{
	char first[256] = "";
	unsigned int count = kernel_warnings(first, sizeof(first));

	report("{\"kind\":\"kernel-log\",\"warnings\":%u,\"first\":\"%s\"}", count, first);
}

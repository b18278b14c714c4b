// SPDX-License-Identifier: MIT OR Apache-2.0
/* The steps check and kernel-log. */
#define _GNU_SOURCE
#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

#include "../lib/linux/fail.h"

/* klogctl(2) */
#define SYSLOG_ACTION_READ_ALL 3
#define LOG_SIZE (1 << 20)

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

void step_catch(const char *name, uint32_t pages)
{
	catching = true;
	step_check(name, pages);
	catching = false;
}

void step_check(const char *name, uint32_t pages)
{
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
	bool in_refusal = false;

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

// SPDX-License-Identifier: MIT OR Apache-2.0
/* The steps check and kernel-log. */
#define _GNU_SOURCE
#include "checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

#include "report.h"

/* klogctl(2) */
#define SYSLOG_ACTION_READ_ALL 3
#define LOG_SIZE (1 << 20)

static const struct check {
	const char *name;
	struct finding (*run)(uint32_t pages);
} checks[] = {
	{ "shared-files", check_shared_files },
	{ "private-copies", check_private_copies },
	{ "dirty-race-zap", check_dirty_race_zap },
	{ "dirty-race-unmap", check_dirty_race_unmap },
	{ "dirty-race-mremap", check_dirty_race_mremap },
	{ "dirty-race-fork", check_dirty_race_fork },
	{ "fork-contents", check_fork_contents },
	{ "fork-race", check_fork_race },
	{ "swap", check_swap },
	{ "swap-after-fork", check_swap_after_fork },
	{ "soft-dirty", check_soft_dirty },
	{ "uffd-wp-markers", check_uffd_wp_markers },
	{ "accounting", check_accounting },
};

static bool first_failure_ends;

bool goes_on(const struct finding *finding, uint32_t pages)
{
	return finding->tried < pages && !(first_failure_ends && finding->failed);
}

void step_catch(const char *name, uint32_t pages)
{
	first_failure_ends = true;
	step_check(name, pages);
	first_failure_ends = false;
}

void step_check(const char *name, uint32_t pages)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding finding;

		if (strcmp(checks[i].name, name))
			continue;
		finding = checks[i].run(pages);
		report("{\"kind\":\"check\",\"name\":\"%s\",\"tried\":%llu,\"failed\":%llu}", name,
		       (unsigned long long)finding.tried, (unsigned long long)finding.failed);
		return;
	}
	errno = EINVAL;
	fail(name);
}

/* What WARN(), BUG(), lockup detectors and the checks of mm/ begin their lines with. */
static const char *const alarms[] = {
	"WARNING:", "BUG:", "Call Trace:", "Bad rss-counter", "Bad page", "bad pte", "rcu: INFO:", "Oops", "UBSAN",
	"MC result",
};

static int is_alarm(const char *line)
{
	for (size_t i = 0; i < sizeof(alarms) / sizeof(alarms[0]); i++)
		if (strstr(line, alarms[i]))
			return 1;
	return 0;
}

unsigned int kernel_warnings(char *first, size_t size)
{
	char *log = calloc(1, LOG_SIZE), *rest = log, *line;
	unsigned int count = 0;

	if (!log || klogctl(SYSLOG_ACTION_READ_ALL, log, LOG_SIZE - 1) < 0)
		fail("read the kernel's log");
	while ((line = strsep(&rest, "\n")))
		if (is_alarm(line) && !count++ && first)
			json_escape(first, size, line);
	free(log);
	return count;
}

void step_kernel_log(void)
{
	char first[256] = "";
	unsigned int count = kernel_warnings(first, sizeof(first));

	report("{\"kind\":\"kernel-log\",\"warnings\":%u,\"first\":\"%s\"}", count, first);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#include "check.h"

#include <time.h>

#include "../report.h"

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ul + now.tv_nsec / 1000000;
}

void report_check(const struct check *check, uint32_t pages)
{
	uint64_t start = milliseconds();
	struct finding finding = check->run(pages);

	report("{\"kind\":\"check\",\"name\":\"%s\",\"tried\":%lu,\"failed\":%lu,\"milliseconds\":%lu}", check->name,
	       finding.tried, finding.failed, milliseconds() - start);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "tick.h"

#include <time.h>

/* One tick is half a percent of the shortest operation. */
void await_tick(void)
{
	struct timespec then, now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &then);
	do
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	while (now.tv_nsec == then.tv_nsec);
}

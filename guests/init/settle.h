/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Keeps the kernel's background work out of what is timed: work that runs beside an operation is counted with it. */
#ifndef PAGETOLL_SETTLE_H
#define PAGETOLL_SETTLE_H

#include <stdint.h>

/*
 * Stops DAMON_STAT (mm/damon/stat.c), which Debian enables in Linux 7.3. Its thread wakes every few milliseconds for as
 * long as the system runs, too short to count as busy, and clears the accessed bits of the pages that it samples.
 */
void stop_access_sampling(void);

/* Waits until the CPUs were idle for a second, at most `limit_s` seconds of guest time; reports how long it took. */
void settle(uint32_t limit_s);

#endif

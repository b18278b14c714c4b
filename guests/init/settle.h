/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits until the kernel has finished what it does in the background after boot: work that runs beside a timed
 * operation would be counted with it.
 */
#ifndef PAGETOLL_SETTLE_H
#define PAGETOLL_SETTLE_H

#include <stdint.h>

/* Waits until the CPUs were idle for a second, at most `limit_s` seconds of guest time; reports how long it took. */
void settle(uint32_t limit_s);

#endif

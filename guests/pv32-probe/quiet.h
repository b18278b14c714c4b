/* SPDX-License-Identifier: GPL-2.0-only */
/* Keeps Xen's deferred work out of what is timed. */
#ifndef PAGETOLL_PV32_QUIET_H
#define PAGETOLL_PV32_QUIET_H

#include "xen.h"

void quiet_init(const struct start_info *info);

/* Blocks until Xen has written a whole report to its serial port, a FIFO at a time. Idle time is free. */
void quiet_wait(void);

#endif

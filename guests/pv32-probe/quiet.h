/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits until Xen has nothing left to do, so that what follows is counted alone. */
#ifndef PAGETOLL_PV32_QUIET_H
#define PAGETOLL_PV32_QUIET_H

#include "xen.h"

void quiet_init(const struct start_info *info);

/* Blocks long enough for Xen to write a whole report to its serial port, which it does by and by. Idle time is free. */
void quiet_wait(void);

#endif

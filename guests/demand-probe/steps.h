/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order. Each reports result lines and ends the guest when it fails. */
#ifndef PAGETOLL_DEMAND_STEPS_H
#define PAGETOLL_DEMAND_STEPS_H

#include <stdint.h>

/* bill MECHANISM PAGES REPEATS: a guest touches each page once; as often as that, after once to warm up. */
void step_bill(const char *mechanism, uint64_t pages, uint32_t repeats);

/* parts COUNT: what an exit, a return to user space, a copy and a switch cost by themselves. */
void step_parts(uint32_t count);

/* check NAME PAGES: see checks.c. A kernel without exits on missing pages is reported as such. */
void step_check(const char *name, uint64_t pages);

#endif

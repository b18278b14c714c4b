/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order; each reports one line. */
#ifndef PAGETOLL_PV32_STEPS_H
#define PAGETOLL_PV32_STEPS_H

#include <stdint.h>

/* No marks in the trace. */
#define NO_MARK 0xffffffffu
/* See guests/xen-probe/xen_probe_abi.h. */
#define MARK_BEGIN 0x50540000u
#define MARK_END 0x50550000u

/* What is done to so many pages, and under which marks. */
struct step {
	uint32_t pages;
	uint32_t mark;
};

void step_set(const char *operation, const char *mechanism, struct step step);
void step_clear(const char *mechanism, uint32_t batch, struct step step);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order; each reports one line. */
#ifndef PAGETOLL_PV32_STEPS_H
#define PAGETOLL_PV32_STEPS_H

#include <stdint.h>

#include "../lib/marks.h"

struct step {
	uint32_t pages;
	/* The id of the marks around each timed stretch, or NO_MARK. */
	uint32_t mark;
};

void step_set(const char *operation, const char *mechanism, struct step step);
void step_clear(const char *mechanism, uint32_t batch, struct step step);

#endif

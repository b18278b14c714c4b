/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_RESTORE_STEPS_H
#define PAGETOLL_RESTORE_STEPS_H

#include <stdint.h>

#include "subject.h"

/*
 * bill MECHANISM BATCH PAGES REPEATS: a guest's memory is brought back from an image of its own; it executes an instruction,
 * touches its working set, and then every other page. REPEATS times, each with a machine of its own. What this guest lacks
 * for the mechanism is reported instead.
 */
void step_bill(const struct subject *subject, uint32_t repeats);

/* control MECHANISM BATCH PAGES: one restore from an image that lacks a page. */
void step_control(const struct subject *subject);

#endif

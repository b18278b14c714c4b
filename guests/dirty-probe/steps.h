/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_DIRTY_STEPS_H
#define PAGETOLL_DIRTY_STEPS_H

#include <stdint.h>

#include "subject.h"

/*
 * bill MECHANISM FOLIO CHUNK PAGES REPEATS: the cost of each phase, REPEATS times, each with a machine of its own. A kernel
 * that lacks something for it reports that instead.
 */
void step_bill(const struct subject *subject, uint32_t repeats);

/*
 * loss MECHANISM FOLIO CHUNK PAGES ROUNDS: a guest writes while its pages are harvested and copied, and every page that
 * differs from its copy must be reported; the same with pages that are cleared after they were copied, which must lose.
 */
void step_loss(const struct subject *subject, uint32_t rounds);

#endif

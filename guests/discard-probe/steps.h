/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_DISCARD_STEPS_H
#define PAGETOLL_DISCARD_STEPS_H

#include <stdint.h>

#include "subject.h"

/*
 * bill CALL BACKING CHUNK PAGES REPEATS: every second chunk of a guest's memory is discarded while the guest stands still;
 * it reads what was not discarded, and writes to what was. REPEATS times, each with a machine of its own. Memory that the
 * call does not take, or that this guest does not have, is reported instead.
 */
void step_bill(const struct subject *subject, uint32_t repeats);

/* single CALL BACKING CHUNK PAGES: one chunk is discarded, from the middle of the first 2 MiB where it is smaller. */
void step_single(const struct subject *subject);

/*
 * misplace CALL BACKING CHUNK PAGES: a bill whose discards are one chunk beside their places. Where `spoil` is set, words of
 * no content are written to these.
 */
void step_misplace(const struct subject *subject);
void step_misplace_and_spoil(const struct subject *subject);

/* hold CALL BACKING CHUNK PAGES: memory that is held before a call that discards nothing, after it, and after CALL on all. */
void step_hold(const struct subject *subject);

/* clear PAGES: the cost of clearing pages as the kernel does. */
void step_clear(uint32_t pages);

#endif

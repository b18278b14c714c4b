/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of an order. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_DEMAND_STEPS_H
#define PAGETOLL_DEMAND_STEPS_H

#include <stdint.h>

/*
 * bill MECHANISM BATCH PAGES REPEATS: a guest touches each page once, and BATCH of them are populated at a time; REPEATS
 * times after one to warm up.
 */
void step_bill(const char *mechanism, uint32_t batch, uint32_t pages, uint32_t repeats);

/* parts BATCH COUNT: what an exit, a return to user space, a page of a copied batch and a switch cost alone. */
void step_parts(uint32_t batch, uint32_t count);

/* check NAME PAGES: see checks.c. A kernel without exits on missing pages reports that instead. */
void step_check(const char *name, uint32_t pages);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The steps of an order. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_PIN_STEPS_H
#define PAGETOLL_PIN_STEPS_H

#include <stdint.h>

#include "vfio.h"

struct bill {
	enum interface interface;
	const char *shape;
	uint64_t pages;
	uint32_t repeats;
};

/* bill INTERFACE SHAPE PAGES REPEATS: maps and unmaps; counts the instructions of the ioctls. */
void step_bill(const struct bill *bill);

/* trace INTERFACE SHAPE PAGES: the same once with function_graph on. */
void step_trace(const struct bill *bill);

/* conformance FILE: runs the cases of a file, a result line each. */
void step_conformance(const char *path);

/* check NAME PAGES: see checks.c. PAGES is a multiple of those of a large page. */
void step_check(const char *name, uint32_t pages);

/*
 * Pages accounted to this process, by proc(5): VmLck, mm->locked_vm, for type1; VmPin, mm->pinned_vm, for iommufd, which
 * charges the user (drivers/iommu/iommufd/pages.c, iopt_pages_update_pinned; 7.3).
 */
uint64_t accounted_pages(enum interface interface);

#endif

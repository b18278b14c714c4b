/* SPDX-License-Identifier: GPL-2.0-only */
/* A guest that touches every page of an area once, by one mechanism. */
#ifndef PAGETOLL_TRAVEL_H
#define PAGETOLL_TRAVEL_H

#include <stdint.h>

#include "machine.h"
#include "pager.h"

struct mechanism {
	const char *name;
	/* The flags of the memslot. */
	uint32_t flags;
	/* The pages are there before the guest touches them. */
	bool is_populated;
};

struct travelled {
	uint64_t pages, instructions;
	/* Of the vCPU, for whatever reason; of these to user space. */
	uint64_t exits, entries;
	/* KVM_EXIT_MEMORY_FAULT, and faults that were read from the userfaultfd. */
	uint64_t missing, faults;
	/* UFFDIO_COPY by the vCPU's own thread, all together. */
	uint64_t copying;
	/* Switches between the threads of this process. */
	uint64_t switches;
	/* Exits that named another page than the one that was missing, and pages that hold or gave something else. */
	uint64_t misnamed, wrong;
};

/* One by name; null when there is none. */
const struct mechanism *mechanism_find(const char *name);

/* Whether this kernel does not have it, which is then reported. */
bool mechanism_is_unavailable(const struct mechanism *mechanism);

/* Touches `pages` pages. */
struct travelled travel(const struct mechanism *mechanism, uint64_t pages);

/* The page that the last KVM_EXIT_MEMORY_FAULT named. */
uint64_t missing_page(const struct machine *machine);

/* Pages of `pager` that do not hold what they were brought in with and what PROGRAM_TOUCH wrote. */
uint64_t wrong_pages(const struct pager *pager);

#endif

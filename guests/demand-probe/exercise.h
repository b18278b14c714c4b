/* SPDX-License-Identifier: GPL-2.0-only */
/* A guest that touches every page of an area once, by one mechanism. */
#ifndef PAGETOLL_EXERCISE_H
#define PAGETOLL_EXERCISE_H

#include <stdint.h>

#include "machine/machine.h"
#include "pager.h"

struct mechanism {
	const char *name;
	/* The flags of the memslot. */
	uint32_t flags;
	/* The pages are present before the guest touches them. */
	bool is_populated;
	/* What was populated is mapped before the guest goes on. */
	bool prefaults;
	/* A bitmap of the memslot marks what is missing; there is no userfaultfd. */
	bool is_marked;
};

struct counts {
	uint64_t pages, instructions;
	/* Exits of the vCPU for any reason, and calls of KVM_RUN. */
	uint64_t exits, entries;
	/* KVM_EXIT_MEMORY_FAULT, and faults read from the userfaultfd. */
	uint64_t missing, faults;
	/* Instructions of all UFFDIO_COPY by the vCPU's own thread, or of what it does instead. */
	uint64_t copying;
	/* Instructions of all KVM_PRE_FAULT_MEMORY. */
	uint64_t prefaulting;
	/* Switches between the threads of this process. */
	uint64_t switches;
	/* Exits that named a page other than the missing one, and pages whose contents were wrong. */
	uint64_t misnamed, wrong;
};

/* Ends the guest for an unknown name. */
const struct mechanism *mechanism_find(const char *name);

/* Whether this kernel lacks the mechanism; if so, reports it. */
bool mechanism_is_unavailable(const struct mechanism *mechanism);

/* A guest touches `pages` pages, and `batch` of them are populated at a time. */
struct counts exercise(const struct mechanism *mechanism, uint32_t batch, uint32_t pages);

/* Populates a batch whose first page may be present; nothing beyond the area's end. Ends the guest when that fails. */
void populate(struct pager *pager, uint64_t page);

/* The page that the last KVM_EXIT_MEMORY_FAULT named. */
uint64_t missing_page(const struct machine *machine);

/* Pages of `pager` that do not hold what they were populated with and what PROGRAM_TOUCH wrote. */
uint64_t wrong_pages(const struct pager *pager);

/* Of the first words of so many populated pages, as PROGRAM_TOUCH adds them. */
uint32_t expected_sum(uint64_t pages);

#endif

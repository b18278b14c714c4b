/* SPDX-License-Identifier: GPL-2.0-only */
/* The pages that a guest touches, in order, and the set that another run has recorded. */
#ifndef PAGETOLL_RESTORE_VISITS_H
#define PAGETOLL_RESTORE_VISITS_H

#include <stdbool.h>
#include <stdint.h>

struct visits {
	uint64_t pages;
	/* Pages of the working set, an eighth of all, which come first in the list. */
	uint64_t set;
	/* A word for each page, as PROGRAM_VISIT reads it. Whole pages. */
	uint32_t *list;
	/* Whether the other run touched the page: as many, of which nine in ten are of the working set. */
	bool *is_recorded;
};

/*
 * The working set is of pages in random order, about half of which are written; then every other page is read, in the order
 * of addresses. The same pages always.
 */
void visits_open(struct visits *visits, uint64_t pages);
void visits_close(struct visits *visits);

/* Pages of memory of the list. */
uint64_t visits_list_pages(const struct visits *visits);

#endif

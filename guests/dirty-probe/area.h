/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory whose writes are logged: pages of 4 KiB, transparent huge pages, or hugetlb pages of 2 MiB. */
#ifndef PAGETOLL_DIRTY_AREA_H
#define PAGETOLL_DIRTY_AREA_H

#include <stdbool.h>
#include <stdint.h>

#include "../demand-probe/mapping/mapping.h"

enum area_memory {
	AREA_PRIVATE,
	/* A memfd, of which the host has a second mapping. */
	AREA_SHARED,
};

struct area {
	char *at;
	/* The mapping that the host reads: the area, or the second one of its file. */
	const char *view;
	uint64_t pages;
	/* Pages that the host maps by one entry, which it cannot split. */
	uint64_t unit;
	void *reserved;
};

/* Maps and populates memory; false where this guest has none of the shape. The order of pages is a multiple of PAGES_2M. */
bool area_open(struct area *area, enum area_memory memory, const char *folio, uint64_t pages);
void area_close(struct area *area);

/* The word that PROGRAM_COUNT counts in. */
static inline uint32_t area_word(const struct area *area, uint64_t page)
{
	return ((const volatile uint32_t *)(area->view + page * PAGE))[1];
}

#endif

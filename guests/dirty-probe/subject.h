/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_DIRTY_SUBJECT_H
#define PAGETOLL_DIRTY_SUBJECT_H

#include <stdint.h>

/* The subject of a step. */
struct subject {
	const char *mechanism, *folio;
	/* Pages that a mechanism clears by one call, where that can be chosen. */
	uint32_t chunk;
	uint32_t pages;
};

#endif

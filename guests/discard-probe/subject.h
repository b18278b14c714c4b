/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_DISCARD_SUBJECT_H
#define PAGETOLL_DISCARD_SUBJECT_H

#include <stdint.h>

/* The subject of a step. */
struct subject {
	const char *call, *backing;
	/* Pages that one call discards, and all pages of the guest: a multiple of 1024. */
	uint32_t chunk, pages;
};

#endif

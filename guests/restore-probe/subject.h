/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_RESTORE_SUBJECT_H
#define PAGETOLL_RESTORE_SUBJECT_H

#include <stdint.h>

/* The subject of a step. */
struct subject {
	const char *mechanism;
	/* Pages that are copied at once at most, and those of the image: a multiple of 512. */
	uint32_t batch, pages;
};

#endif

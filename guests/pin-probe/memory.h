/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of a given shape, present and written, and its physical layout.
 *
 *   4K        anonymous, large pages off
 *   64K       anonymous, in folios of 64 KiB (Linux 6.8 or later)
 *   THP       anonymous, in transparent large pages
 *   2M, 1G    hugetlb
 *   2M-entries  transparent large pages, each mapped by 512 entries of 4 KiB
 *   2M-split  hugetlb of 2 MiB, faulted so that neighbours are not contiguous
 *   2M-joined hugetlb of 2 MiB, faulted so that neighbours are contiguous, as far as the pool has such pages
 *   file      a shared mapping of a file in memory, in pages of 4 KiB
 *   read-only anonymous, written and then made read-only
 *   none      addresses without memory
 */
#ifndef PAGETOLL_MEMORY_H
#define PAGETOLL_MEMORY_H

#include <stdint.h>

struct memory {
	char *addr;
	uint64_t pages;
	/* The mapping that it is part of. */
	void *whole;
	uint64_t whole_size;
};

/* From /proc/self/pagemap and /proc/kpageflags. */
struct layout {
	/* Runs of physically contiguous pages. */
	uint64_t runs;
	/* Folios; a single page is one. */
	uint64_t folios;
	/* Pages of the largest folio. */
	uint64_t largest;
};

/* Why this kernel cannot make memory of the shape, or NULL. */
const char *memory_unavailable(const char *shape, uint64_t pages);

/* Maps memory and writes to every page of it. Ends the guest when that fails. */
struct memory memory_get(const char *shape, uint64_t pages);
void memory_put(struct memory *memory);

struct layout memory_layout(const struct memory *memory);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An area of anonymous memory of small pages, its userfaultfd, and a thread that may read it. Pages come from memory;
 * what a remote source would cost is nobody's subject here.
 */
#ifndef PAGETOLL_PAGER_H
#define PAGETOLL_PAGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pager {
	char *area;
	uint64_t pages;
	int uffd;
	pthread_t reader;
	bool is_reading;
	/* Faults that came through the userfaultfd; written by the reader. */
	uint64_t faults;
	/* The page of the last of them. */
	uint64_t last;
};

/* Whether whoever sleeps in the fault is woken. */
enum wake { WAKE, DONT_WAKE };

/* Maps an area that is missing wholly. `pager` must stay where it is while a reader reads. */
void pager_open(struct pager *pager, uint64_t pages);
void pager_close(struct pager *pager);

/* Starts the reader, which brings in whatever page is asked for. */
void pager_start_reader(struct pager *pager);

/* Brings in one page by UFFDIO_COPY; 0 or an errno, EEXIST where it is there already. */
int pager_bring(struct pager *pager, uint64_t page, enum wake wake);

/* Brings all pages in beforehand. */
void pager_populate(struct pager *pager);

/* What the first word of a page is when it was brought in, and all other words that the guest does not write. */
uint32_t pager_first_word(uint64_t page);
#define PAGER_FILL 0x5a5aa5a5u

#endif

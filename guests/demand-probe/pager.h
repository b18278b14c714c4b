/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An area of anonymous memory of small pages, its userfaultfd, and a thread that may read it. Pages come from memory: the
 * cost of a remote source is not measured.
 */
#ifndef PAGETOLL_PAGER_H
#define PAGETOLL_PAGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pager {
	char *area;
	/* Of the area, and at most as many are populated at a time. */
	uint64_t pages, batch;
	int uffd;
	pthread_t reader;
	bool is_reading;
	/* Made before it reads, so that it is not billed. */
	void *source_of_reader;
	/* Faults read from the userfaultfd, and the page of the last; written by the reader. */
	uint64_t faults;
	uint64_t last;
	/* NULL where the userfaultfd tells what is missing. */
	uint64_t *marks;
};

/* Whether a copy wakes the threads that sleep in faults on the page. */
enum wake { WAKE, DONT_WAKE };

/* Maps an area without pages. `pager` must not move while a reader runs. */
void pager_open(struct pager *pager, uint64_t batch, uint64_t pages);
void pager_close(struct pager *pager);

/* Starts the reader, which resolves faults in order. */
void pager_start_reader(struct pager *pager);

/* Pages that are populated together with `page`, which comes first: a batch, and fewer at the area's end. */
uint64_t pager_batch_at(const struct pager *pager, uint64_t page);

/*
 * Populates a batch by UFFDIO_COPY; 0 or an errno, EEXIST if its first page is present. A batch that meets a page which
 * is present ends before it.
 */
int pager_copy(struct pager *pager, uint64_t page, enum wake wake);

/* Marks of pages that are missing, a bit each, in place of the userfaultfd; freed by pager_close(). */
void pager_mark_all(struct pager *pager);

/* Populates a batch by writing to it, and takes away the marks of its pages. */
void pager_fill(struct pager *pager, uint64_t page);

/* Populates all pages. */
void pager_populate(struct pager *pager);

/* The first word of a populated page, and all others. */
uint32_t pager_first_word(uint64_t page);
#define PAGER_FILL 0x5a5aa5a5u

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* A userfaultfd over a guest's memory, and the thread that populates what is missing from the image. */
#ifndef PAGETOLL_RESTORE_READER_H
#define PAGETOLL_RESTORE_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "image.h"

/* Delivery of a fault on a missing page. */
enum delivery {
	/* The thread that touched it sleeps, and the reader gets a message. */
	MESSAGE,
	/* Its access fails. */
	ERROR,
};

/* Work that was done for missing pages. Installing is counted where it wakes no thread. */
struct work {
	uint64_t faults;
	/* Runs of pages that were read, and the instructions of reading and of installing them. */
	uint64_t calls, reading, installing;
};

struct reader {
	const struct image *image;
	char *at;
	/* Another mapping of the same shared memory, through which the page cache is filled; NULL where pages are copied. */
	char *second;
	/* Pages that are populated at once, a power of two: those of a hugetlb page at least. */
	uint64_t batch;
	bool *is_present;
	/* Pages on their way; made before anything is counted. */
	void *buffer;
	int uffd;
	pthread_t thread;
	bool is_reading;
	struct work work;
};

/* Makes the parts of a reader that need no memory of the guest. */
void reader_open(struct reader *reader, const struct image *image, uint64_t batch);
void reader_close(struct reader *reader);

/* Begins to page the memory at an address, which must not have been touched. */
void reader_register(struct reader *reader, char *at, char *second, enum delivery delivery);

/* Starts the thread that resolves faults in order. `reader` must not move while it runs. */
void reader_start(struct reader *reader);

/* Populates the missing pages of the batch around a page, and wakes no thread. */
void reader_populate(struct reader *reader, uint64_t page);

/* Populates a set of pages in runs, and wakes no thread. */
void reader_replay(struct reader *reader, const bool *is_recorded);

/* The name of a feature of userfaultfd that the kernel lacks for minor faults of shared memory, or NULL. */
const char *reader_lacks_minor(void);

#endif

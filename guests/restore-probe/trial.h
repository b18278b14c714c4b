/* SPDX-License-Identifier: GPL-2.0-only */
/* A guest of which only the memory is missing, and the ways to bring it back. */
#ifndef PAGETOLL_RESTORE_TRIAL_H
#define PAGETOLL_RESTORE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "../demand-probe/machine/machine.h"
#include "image.h"
#include "reader.h"
#include "subject.h"
#include "visits.h"

struct trial;

struct mechanism {
	const char *name;
	/* Maps the memory, without pages. */
	void (*place)(struct trial *trial);
	/* Work before the machine has the memory; NULL where there is none. */
	void (*prepare)(struct trial *trial);
	/* Work before the guest runs; NULL where there is none. */
	void (*ahead)(struct trial *trial);
	/* The name of what this guest lacks, or NULL. */
	const char *(*lacks)(const struct trial *trial);
	/* Pages of 2 MiB are set aside for it. */
	bool is_hugetlb;
	/* Pages of shared memory are the guest's own, whether it has written them or not. */
	bool is_shared;
};

struct trial {
	const struct mechanism *mechanism;
	struct machine machine;
	struct image image;
	struct visits visits;
	struct reader reader;
	/* Addresses of the memory, and what unreserve() takes. */
	char *at;
	void *reserved;
	/* Instructions in which pages were found that an exit is about. */
	uint64_t finding;
};

/* Makes a machine that has run, and everything but its memory. Returns the name of what this guest lacks, or NULL. */
const char *trial_open(struct trial *trial, const struct subject *subject);
void trial_close(struct trial *trial);

/* Brings memory back and lets the guest execute its first instruction. */
void trial_restore(struct trial *trial);

/* Points the guest at a part of its visits, and runs it until its program ends. */
void trial_aim(struct trial *trial, uint64_t first, uint64_t count);
void trial_run(struct trial *trial);

/* Ends the guest for an unknown name. */
const struct mechanism *mechanism_find(const char *name);

#endif

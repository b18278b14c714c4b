/* SPDX-License-Identifier: GPL-2.0-only */
/* A guest that has written to all of its memory, and the discards of every second chunk of it. */
#ifndef PAGETOLL_DISCARD_TRIAL_H
#define PAGETOLL_DISCARD_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "subject.h"

/* The first of the chunks that are discarded, and the first of those beside: every second one from there on. */
#define DISCARDED 0
#define BESIDE 1

struct trial {
	const struct subject *subject;
	const struct call *call;
	struct machine machine;
	struct memory memory;
	/* The chunk from which a bill goes on. */
	uint32_t next;
};

/* True where the memory is to be had and the call takes it; reports what is lacking. */
bool can_discard(const struct subject *subject);

/* Makes a machine that has written to each page, or to none; false, and reported, where something is lacking. */
bool trial_open(struct trial *trial, const struct subject *subject);
bool trial_open_unwritten(struct trial *trial, const struct subject *subject);
void trial_close(struct trial *trial);

static inline uint32_t chunks(const struct subject *subject)
{
	return subject->pages / subject->chunk;
}

/* Pages of every second chunk. */
static inline uint32_t half(const struct subject *subject)
{
	return subject->pages / 2;
}

/* Runs the guest until its program ends. */
void trial_run(struct trial *trial);

/* Runs a program on every second chunk. */
void trial_touch(struct trial *trial, enum program program, uint32_t first);

/* Discard a part, and every second chunk from the first on, before the end; end the guest where a call fails. */
void trial_discard(struct trial *trial, uint64_t page, uint64_t pages);
void trial_discard_chunks(struct trial *trial, uint32_t first, uint32_t end);

/* Begin and end a report of a subject; report_more() adds to it. */
void begin_report(const char *kind, const struct subject *subject);
void end_report(void);

#endif

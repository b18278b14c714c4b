/* SPDX-License-Identifier: GPL-2.0-only */
/* A log of the pages of an area that a guest writes, by one mechanism. */
#ifndef PAGETOLL_DIRTY_LOG_H
#define PAGETOLL_DIRTY_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../demand-probe/machine/machine.h"
#include "area.h"
#include "subject.h"

struct log;

struct mechanism {
	/* Names what this kernel lacks for it, by the descriptor of /dev/kvm; NULL for nothing. */
	const char *(*lacks)(int kvm);
	/* The memory that it logs. */
	enum area_memory memory;
	/* The vCPU has a ring. */
	bool has_ring;
	/* A thread sleeps until the guest writes, and lets it go on. */
	bool wakes;
	/* It logs all pages again, whether they were reported or not: the vCPU has to stand still from the harvest on. */
	bool rearms_all;
	/* Work that is done once and belongs to no phase. */
	void (*prepare)(struct log *log);
	void (*finish)(struct log *log);
	void (*arm)(struct log *log);
	/* Sets the bits of the pages that were written, and clears all others. */
	void (*harvest)(struct log *log);
	/* Logs the pages of the last harvest again; NULL where the harvest does. */
	void (*rearm)(struct log *log);
	void (*disarm)(struct log *log);
};

/* An entry of KVM's ring: struct kvm_dirty_gfn. */
struct ring_entry {
	uint32_t flags, slot;
	uint64_t offset;
};

struct log {
	const struct mechanism *mechanism;
	struct machine machine;
	struct area area;
	uint64_t chunk;
	/* A bit for each page that the last harvest has reported. */
	uint64_t *dirty;

	/* The entries of a ring, and the next to be read. */
	struct ring_entry *ring;
	uint64_t ring_next;

	/* A bit for each page that was seen to be written since the last harvest, where user space sees that. */
	uint64_t *written;
	/* A userfaultfd, its reader, and the messages that this has read. */
	int uffd;
	pthread_t reader;
	uint64_t faults;
	/* The descriptor of pagemap, and a buffer for what it says. */
	int pagemap;
	void *regions;
};

/* Words of the log's bitmaps. */
static inline uint64_t log_words(const struct log *log)
{
	return (log->area.pages + 63) / 64;
}

static inline void set_bit(uint64_t *bits, uint64_t page)
{
	bits[page / 64] |= 1ull << page % 64;
}

static inline bool has_bit(const uint64_t *bits, uint64_t page)
{
	return bits[page / 64] >> page % 64 & 1;
}

/* Makes a machine that has written each page of its area; false, and reported, where something is lacking. */
bool log_open(struct log *log, const struct subject *subject);
void log_close(struct log *log);

/* Points the guest at pages to write; log_write() runs it until it has. */
void log_aim(struct log *log, uint64_t page, uint64_t pages);
void log_write(struct log *log);

/* Reports the pages in `written`, which it empties. */
void log_take_written(struct log *log);

void kvm_arm(struct log *log);
void kvm_disarm(struct log *log);

/* The capability of KVM by which a vCPU has a ring, 0 for none. */
unsigned int ring_capability(int kvm);
#define RING_SIZE (65536 * sizeof(struct ring_entry))
/* Sets the bits of the pages in a full ring, and empties it. */
void ring_drain(struct log *log);

extern const struct mechanism kvm_bitmap, kvm_manual, kvm_initially_set, kvm_ring, uffd_wp, uffd_wp_async, uffd_rwp,
		soft_dirty;

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The ways in which a 32-bit PAE kernel sets, and gets and clears, entries of its page tables; and parts of them. */
#ifndef PAGETOLL_PV32_MECHANISM_H
#define PAGETOLL_PV32_MECHANISM_H

#include "memory.h"

/* One table, the entries wanted in it, and those that a mechanism returned. */
struct work {
	struct table table;
	uint64_t wanted[ENTRIES];
	uint64_t returned[ENTRIES];
	struct mmu_update requests[ENTRIES];
	/* Hypercalls that Xen refused. */
	unsigned int refused;
};

/* Halves of an entry. */
enum { LOW_HALF = 1, HIGH_HALF = 2, BOTH_HALVES = 3 };

struct setting {
	const char *operation;
	const char *name;
	/* Which halves are set before, and which it stores. */
	unsigned int before;
	unsigned int stores;
	void (*run)(struct work *work);
};

struct clearing {
	const char *name;
	/* Which halves it leaves, A and D apart: a mechanism none, a part of one another half, a baseline both. */
	unsigned int leaves;
	void (*run)(struct work *work, unsigned int first, unsigned int count);
};

/* NULL for an unknown name. */
const struct setting *setting_find(const char *operation, const char *name);
const struct clearing *clearing_find(const char *name);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory of a guest by one backing, how much of it the host holds, and the calls that discard it. */
#ifndef PAGETOLL_DISCARD_MEMORY_H
#define PAGETOLL_DISCARD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "../demand-probe/machine/machine.h"
#include "../demand-probe/mapping/mapping.h"

/*
 * The first words of pages. Their sum tells how many pages have which, where no page has a word of another kind and there
 * are fewer than 65536.
 */
#define WORD_OLD 1u
#define WORD_FILE 0x10000u
/* More of each than there are pages. */
#define WORD_SPOILT 0x10001u

struct backing;

struct memory {
	const struct backing *backing;
	char *at;
	uint64_t pages;
	/* The file that is mapped, or -1. */
	int file;
	void *reserved;
};

/* Memory that the host holds for the guest, in bytes. */
struct held {
	/* Memory of the guest alone, which cannot be read again: anonymous pages, and pages of its own file. */
	uint64_t own;
	/* Bytes of that which MADV_FREE has marked. */
	uint64_t lazy;
	uint64_t rss;
	/* Page cache of the file behind a private mapping. */
	uint64_t page_cache;
	/* Huge pages that wait to be split, since the boot. */
	uint64_t deferred_splits;
};

/* Makes memory that holds WORD_OLD in each page, and the machine's memslot of it; returns the name of what is lacking, or NULL. */
const char *memory_open(struct memory *memory, struct machine *machine, const char *backing, uint64_t pages);
void memory_close(struct memory *memory);

void memory_set_words(const struct memory *memory, uint64_t page, uint64_t pages, uint32_t word);
struct held memory_held(const struct memory *memory);

/* A call that discards: 0, or its errno. */
typedef int (*discard)(const struct memory *memory, uint64_t page, uint64_t pages);

struct call {
	const char *name;
	discard discard;
	/* The name of the system call. */
	const char *what;
};

const struct call *call_find(const char *name);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames and page tables of the guest. All entries but those under test are written by hypercalls.
 *
 *   0x00000000  the pages under test, writable, as a kernel's direct map has them
 *   0x40000000  the same pages, through the tables under test
 *   0x80000000  those tables, read-only: stores to them trap
 *   0x80200000  the trace buffer and its t_info, 6 MiB
 *   0x80800000  the device that carries bulk data out
 *   0x81800000  the shared_info page
 */
#ifndef PAGETOLL_PV32_MEMORY_H
#define PAGETOLL_PV32_MEMORY_H

#include "xen.h"

#define ENTRIES 512u
/* Pages of the first areas. */
#define MOST_PAGES (ENTRIES * ENTRIES)
#define PTE_PRESENT 0x1ull
#define PTE_WRITABLE 0x2ull
#define PTE_USER 0x4ull
#define PTE_ACCESSED 0x20ull
#define PTE_DIRTY 0x40ull
#define PTE_NO_EXECUTE (1ull << 63)

#define DIRECT_BASE 0x00000000u
#define TESTED_BASE 0x40000000u
#define TABLES_BASE 0x80000000u
#define TRACE_BASE 0x80200000u
#define TRACE_SPAN 0x600000u
#define SHARED_BASE 0x80800000u
#define SHARED_SPAN 0x1000000u
#define SHARED_INFO 0x81800000u

/* An entry as a 32-bit kernel sees it. */
union entry {
	uint64_t whole;
	struct {
		uint32_t low;
		uint32_t high;
	};
};

/* A table under test. */
struct table {
	/* Mapped read-only: stores trap. */
	volatile union entry *entries;
	/* Its machine address, for hypercalls. */
	uint64_t machine;
	/* The first address that it maps. */
	uint32_t address;
	unsigned int count;
};

void memory_init(const struct start_info *info);

/* The machine address of a page under test, the same each time. */
uint64_t page_machine(unsigned int page);

/* Maps a frame of `domain` in one of the areas above. */
void map_frame(uint32_t address, uint64_t entry, uint32_t domain);

/* Table number `index` of those under test, empty at first. */
struct table table_of(unsigned int index, unsigned int count);

/* Sets all entries of a table and flushes the TLB. */
void table_fill(const struct table *table, const uint64_t *values);

void flush_tlb(void);

#endif

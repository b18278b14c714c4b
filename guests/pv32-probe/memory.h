/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames and page tables of the guest. Xen writes every entry that is not being billed.
 *
 *   0x00000000  the pages under test, writable, as a kernel's direct map has them
 *   0x40000000  the same pages, by the tables under test
 *   0x80000000  those tables, read-only: stores to them trap
 *   0x80200000  the trace buffers of the CPU, 6 MiB for them and for what says where they are
 *   0x80800000  the device that carries bulk data out
 *   0x81800000  what Xen shares with the guest
 */
#ifndef PAGETOLL_PV32_MEMORY_H
#define PAGETOLL_PV32_MEMORY_H

#include "xen.h"

#define ENTRIES 512u
/* What one of the areas holds. */
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
	/* Where its entries are read, and where stores to them trap. */
	volatile union entry *entries;
	/* Its machine address, for hypercalls. */
	uint64_t machine;
	/* Where the pages are that it maps. */
	uint32_t address;
	unsigned int count;
};

void memory_init(const struct start_info *info);

/* The machine address of page number `page` of those under test, the same each time. */
uint64_t page_machine(unsigned int page);

/* Maps a frame of `domain` at an address of the areas above. */
void map_frame(uint32_t address, uint64_t entry, uint32_t domain);

/* Table number `index` of those under test; it is made when it is asked for the first time, empty. */
struct table table_of(unsigned int index, unsigned int count);

/* Sets all entries of a table, by values of the caller's, and flushes. */
void table_fill(const struct table *table, const uint64_t *values);

void flush_tlb(void);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks of what a kernel does with the page-table entries that it clears and write-protects, by their effects on user
 * space alone.
 */
#ifndef PAGETOLL_CHECKS_H
#define PAGETOLL_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../lib/linux/check.h"
#include "../lib/linux/page.h"

/* check NAME PAGES */
void step_check(const char *name, uint32_t pages);

/* catch NAME PAGES: the same up to the first failure, for a kernel that is expected to fail. */
void step_catch(const char *name, uint32_t pages);

/* Whether a check that runs in rounds needs another: it has not tried `pages`, and is not a catch that has failed. */
bool needs_round(const struct finding *finding, uint32_t pages);

/* kernel-log: reports the warnings in the kernel's log. */
void step_kernel_log(void);

/* From now on, what the kernel says of queued updates that Xen refuses is no warning: it says each, and goes on. */
void expect_refusals(void);

/* The number of warnings so far; `first`, if not null, gets the first. */
unsigned int kernel_warnings(char *first, size_t size);

/*
 * The checks: name in orders, and function.
 *
 * shared-files: mappings of a tmpfs file and of a disk, torn down in many ways, read back after dropping caches.
 * private-copies: they survive when a hole is punched into their file; the file's pages do not.
 * dirty-race: a thread writes to pages while another zaps them, maps over them, moves them away, or forks: no write is lost.
 * mremap-contents: pages that are moved, in runs of all lengths, keep their content, and leave none behind.
 * fork: parent and child see their own writes only, one after the other and concurrently; a child finds what its parent
 * has in swap.
 * swap: pages that were swapped out, in, written, and swapped out again, and pages that were written after MADV_FREE; the
 * same with a fork before the last.
 * dontneed-swapped: MADV_DONTNEED of pages that are swapped out leaves zeroes, and no warning.
 * soft-dirty: bits after a swap, a fork and a move.
 * uffd-wp-markers: write-protection by userfaultfd outlives the entries of a shared mapping.
 * accounting: mapcounts and resident set sizes after zapping.
 * foreign: another domain's pages, mapped across page tables, are those of that domain, and are let go.
 * refused-clears: shared-files, private-copies and accounting with a Xen that refuses clears of entries here and there.
 * clear-range: Xen's hypercall that clears a run of entries, on a page table of its own, rightly and wrongly called.
 */
#define EACH_CHECK(check)                                   \
	check("shared-files", check_shared_files)           \
	check("private-copies", check_private_copies)       \
	check("dirty-race-zap", check_dirty_race_zap)       \
	check("dirty-race-unmap", check_dirty_race_unmap)   \
	check("dirty-race-mremap", check_dirty_race_mremap) \
	check("dirty-race-fork", check_dirty_race_fork)     \
	check("mremap-contents", check_mremap_contents)     \
	check("fork-contents", check_fork_contents)         \
	check("fork-race", check_fork_race)                 \
	check("fork-swapped", check_fork_swapped)           \
	check("swap", check_swap)                           \
	check("swap-after-fork", check_swap_after_fork)     \
	check("dontneed-swapped", check_dontneed_swapped)   \
	check("soft-dirty", check_soft_dirty)               \
	check("uffd-wp-markers", check_uffd_wp_markers)     \
	check("accounting", check_accounting)               \
	check("foreign", check_foreign)                     \
	check("refused-clears", check_refused_clears)       \
	check("clear-range", check_clear_range)

#define DECLARE(name, function) struct finding function(uint32_t pages);
EACH_CHECK(DECLARE)
#undef DECLARE

/* checks/memory.c: what the checks work with. Each ends the guest when it fails. */
int tmpfs_file(size_t size);
void *map_or_fail(int fd, size_t size, int flags);
void drop_caches(void);
uint64_t pagemap_entry(const volatile void *addr);
void use_swap(void);
void page_out(void *addr, size_t size);
uint64_t count_swapped(volatile char *area, uint32_t pages);
/* A child that exits at once. */
void fork_once(void);

/* The word at the beginning of a page, and those of all pages: page i holds `value` + i. */
volatile uint64_t *word(volatile char *area, size_t page);
void write_all_pages(volatile char *area, uint32_t pages, uint64_t value);
/* Pages that hold another word than that. */
uint64_t count_wrong_words(volatile char *area, uint32_t pages, uint64_t value);

#endif

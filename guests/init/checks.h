/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks of what a kernel does with the page-table entries that it clears and write-protects. Each is carried out by
 * "check NAME PAGES" and reports how much was tried and how much of it was wrong; none knows how the kernel works.
 */
#ifndef PAGETOLL_CHECKS_H
#define PAGETOLL_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096ul

struct finding {
	uint64_t tried;
	uint64_t failed;
};

/* check NAME PAGES */
void step_check(const char *name, uint32_t pages);

/* catch NAME PAGES: the same, to the first failure: enough where failing is what is expected. */
void step_catch(const char *name, uint32_t pages);

/* Whether a check that goes round until it tried so many pages is to go round again. */
bool goes_on(const struct finding *finding, uint32_t pages);

/* kernel-log: counts the lines in the kernel's log that no healthy kernel writes. */
void step_kernel_log(void);

/* How many such lines there are by now; `first`, if not null, gets the first. */
unsigned int kernel_warnings(char *first, size_t size);

/* Shared mappings of a tmpfs file and of a disk, torn down in many ways, read back after dropping caches. */
struct finding check_shared_files(uint32_t pages);

/* Private pages survive when the file below them is punched; the file's own do not. */
struct finding check_private_copies(uint32_t pages);

/*
 * A thread writes to pages while another zaps them, maps over them, moves them away, or forks: nothing that was written
 * is lost.
 */
struct finding check_dirty_race_zap(uint32_t pages);
struct finding check_dirty_race_unmap(uint32_t pages);
struct finding check_dirty_race_mremap(uint32_t pages);
struct finding check_dirty_race_fork(uint32_t pages);

/* Parent and child see their own writes only, one after the other and at the same time. */
struct finding check_fork_contents(uint32_t pages);
struct finding check_fork_race(uint32_t pages);

/*
 * Pages that were swapped out, in, written, and swapped out again, and pages that were written after MADV_FREE; the same
 * with a fork before the last.
 */
struct finding check_swap(uint32_t pages);
struct finding check_swap_after_fork(uint32_t pages);

/* Soft-dirty bits after a swap, a fork and a move. */
struct finding check_soft_dirty(uint32_t pages);

/* Write-protection by userfaultfd outlives the entries of a shared mapping. */
struct finding check_uffd_wp_markers(uint32_t pages);

/* Mapcounts and resident set sizes after zapping. */
struct finding check_accounting(uint32_t pages);

/* What the checks share: see check_memory.c. */
int tmpfs_file(size_t size);
void *map_or_fail(int fd, size_t size, int flags);
void write_value(const char *path, const char *value);
void drop_caches(void);
uint64_t pagemap_entry(const volatile void *addr);
void use_swap(void);
void page_out(void *addr, size_t size);
void fork_once(void);

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_UFFD_WP (1ull << 57)
#define PAGEMAP_SOFT_DIRTY (1ull << 55)
#define PAGEMAP_PFN ((1ull << 55) - 1)

#endif

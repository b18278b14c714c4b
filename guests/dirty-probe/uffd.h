/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of userfaultfd and of pagemap's scan that older headers lack: include/uapi/linux/userfaultfd.h and
 * include/uapi/linux/fs.h of Linux 7.3.
 */
#ifndef PAGETOLL_DIRTY_UFFD_H
#define PAGETOLL_DIRTY_UFFD_H

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* Linux 5.19, 6.7 and 7.3. */
#define ABI_UFFD_WP_HUGETLBFS_SHMEM (1 << 12)
#define ABI_UFFD_WP_UNPOPULATED (1 << 13)
#define ABI_UFFD_WP_ASYNC (1 << 15)
#define ABI_UFFD_RWP (1 << 17)
#define ABI_UFFD_RWP_ASYNC (1 << 18)

#define ABI_REGISTER_MODE_RWP (1 << 3)
#define ABI_RWPROTECT_MODE_RWP (1 << 0)

/* struct uffdio_rwprotect */
struct abi_rwprotect {
	struct uffdio_range range;
	uint64_t mode;
};

#define ABI_UFFDIO_RWPROTECT _IOWR(UFFDIO, 0x09, struct abi_rwprotect)

#define ABI_PAGE_IS_WRITTEN (1 << 1)
#define ABI_PAGE_IS_ACCESSED (1 << 9)
#define ABI_SCAN_WP_MATCHING (1 << 0)
#define ABI_SCAN_CHECK_WPASYNC (1 << 1)

/* struct page_region */
struct abi_page_region {
	uint64_t start, end, categories;
};

/* struct pm_scan_arg */
struct abi_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define ABI_PAGEMAP_SCAN _IOWR('f', 16, struct abi_scan)

struct log;

/* A descriptor, or -1 where the kernel lacks a feature. */
int uffd_open(uint64_t features);

/* The name where the kernel lacks a feature, else NULL. */
const char *uffd_lacks(uint64_t features, const char *name);

/* Registers the area; unregistering lifts the protection of all pages, too. */
void uffd_register(struct log *log, uint64_t mode);
void uffd_unregister(struct log *log);

/* Protects the pages of the last harvest, by one call for pages that are next to each other. */
void uffd_protect_reported(struct log *log, void (*protect)(struct log *log, uint64_t page, uint64_t pages));

/* Opens a userfaultfd that the kernel resolves, and pagemap. */
void uffd_prepare_scan(struct log *log, uint64_t features);
void uffd_finish_scan(struct log *log);

/* Sets the bits of the pages that pagemap's scan finds in a category, and clears all others. */
void uffd_scan(struct log *log, uint64_t category, uint64_t flags);

#endif

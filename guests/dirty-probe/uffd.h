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

/* Linux 5.19 and 6.7. */
#define ABI_UFFD_WP_HUGETLBFS_SHMEM (1 << 12)
#define ABI_UFFD_WP_UNPOPULATED (1 << 13)
#define ABI_UFFD_WP_ASYNC (1 << 15)

#define ABI_PAGE_IS_WRITTEN (1 << 1)
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

#endif

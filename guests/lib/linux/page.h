/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pages and what /proc/PID/pagemap says of them: Documentation/admin-guide/mm/pagemap.rst. */
#ifndef PAGETOLL_PAGE_H
#define PAGETOLL_PAGE_H

#define PAGE 4096ul

#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_UFFD_WP (1ull << 57)
#define PAGEMAP_SOFT_DIRTY (1ull << 55)
#define PAGEMAP_PFN ((1ull << 55) - 1)

#endif

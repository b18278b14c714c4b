/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory that a probe maps for a guest of its own. */
#ifndef PAGETOLL_MAPPING_H
#define PAGETOLL_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "../../lib/linux/page.h"

/* Pages of 4 KiB in one of 2 MiB. */
#define PAGES_2M 512ul
#define SIZE_2M (PAGES_2M * PAGE)

/* Addresses from a multiple of 2 MiB on, for so many pages. `reserved` is what unreserve() takes. */
char *reserve(uint64_t pages, void **reserved);
void unreserve(void *reserved, uint64_t pages);

/* Lets memory that asks for transparent huge pages have them: a kernel with less than 512 MiB makes none unless asked. */
void allow_thp(void);

/* Sets the pool of hugetlb pages to that of so many small ones; false where it is smaller. */
bool set_hugetlb_pool(uint64_t pages);

/* Bytes of the mappings in a range, by a line of smaps; 0 where they have none. */
uint64_t mapped_as(const char *at, uint64_t size, const char *wanted);

#endif

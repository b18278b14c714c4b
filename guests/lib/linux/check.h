/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks of a kernel: each tries a number of pages and counts those that went wrong. */
#ifndef PAGETOLL_CHECK_H
#define PAGETOLL_CHECK_H

#include <stdint.h>

#include "named.h"

struct finding {
	uint64_t tried;
	uint64_t failed;
};

struct check {
	const char *name;
	struct finding (*run)(uint32_t pages);
};

/* Runs the check of a table that has that name and reports its finding. */
#define run_check(table, name, pages) report_check(find_named(table, name), pages)

void report_check(const struct check *check, uint32_t pages);

#endif

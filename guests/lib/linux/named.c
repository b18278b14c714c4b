// SPDX-License-Identifier: MIT OR Apache-2.0
#include "named.h"

#include <errno.h>
#include <string.h>

#include "../report.h"

const void *find_named_in(const void *table, size_t count, size_t size, const char *name)
{
	for (const char *entry = table; count--; entry += size)
		if (!strcmp(*(const char *const *)entry, name))
			return entry;
	fail_with(name, EINVAL);
}

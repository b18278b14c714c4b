/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables whose entries begin with a name. */
#ifndef PAGETOLL_NAMED_H
#define PAGETOLL_NAMED_H

#include <stddef.h>

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

/* The entry with that name; ends the guest when there is none. */
#define find_named(table, name) find_named_in(table, COUNT_OF(table), sizeof((table)[0]), name)

const void *find_named_in(const void *table, size_t count, size_t size, const char *name);

#endif

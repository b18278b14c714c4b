// SPDX-License-Identifier: MIT OR Apache-2.0
/* On its own host, nothing is traced: a program that pagetoll runs there has no bulk data. */
#include <errno.h>

#include "../../shared_memory.h"
#include "../fail.h"

void shared_append(const void *data, size_t size)
{
	(void)data;
	(void)size;
	fail_with("carry bulk data", ENOSYS);
}

void shared_report(const char *name)
{
	fail_with(name, ENOSYS);
}

void shared_receive(void (*take)(const char *memory, size_t size))
{
	(void)take;
	fail_with("receive bulk data", ENOSYS);
}

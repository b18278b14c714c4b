// SPDX-License-Identifier: GPL-2.0-only
/* What a freestanding compiler may call, and what the order is read with. */
#include "string.h"

void *memset(void *to, int byte, size_t size)
{
	uint8_t *bytes = to;

	while (size--)
		*bytes++ = (uint8_t)byte;
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	uint8_t *out = to;
	const uint8_t *in = from;

	while (size--)
		*out++ = *in++;
	return to;
}

int equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_PV32_STRING_H
#define PAGETOLL_PV32_STRING_H

#include <stddef.h>
#include <stdint.h>

void *memset(void *to, int byte, size_t size);
void *memcpy(void *restrict to, const void *restrict from, size_t size);

/* Whether two texts are the same. */
int equal(const char *a, const char *b);

#endif

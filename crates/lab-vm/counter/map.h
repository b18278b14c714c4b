/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Numbers pairs of integers in the order in which they are first seen, from 0 on. */
#ifndef PAGETOLL_MAP_H
#define PAGETOLL_MAP_H

#include <stdint.h>

struct pair {
	uint64_t first;
	uint64_t second;
};

/* Zeroed, it is empty. */
struct map {
	struct pair *pairs;
	uint32_t count;
	/* Numbers of pairs, plus one; a power of two of them. */
	uint32_t *slots;
	uint32_t size;
};

/* Adds it where it is not there. Ends QEMU where there is no memory. */
uint32_t map_number(struct map *map, uint64_t first, uint64_t second);
void map_clear(struct map *map);

/* realloc() for so many items of a size; ends QEMU where there is no memory. */
void *grown(void *items, uint64_t count, uint64_t size);

#endif

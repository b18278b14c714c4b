/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"

#define FIRST_SIZE 1024u

void *grown(void *items, uint64_t count, uint64_t size)
{
	items = realloc(items, count * size);
	if (!items) {
		fprintf(stderr, "counter: no memory\n");
		_Exit(1);
	}
	return items;
}

/* Mixes as MurmurHash3's finaliser does. */
static uint32_t hash(uint64_t first, uint64_t second)
{
	uint64_t x = second ^ first * 0x9e3779b97f4a7c15;

	x ^= x >> 33;
	x *= 0xff51afd7ed558ccd;
	x ^= x >> 33;
	return x;
}

static uint32_t *slot_of(const struct map *map, uint64_t first, uint64_t second)
{
	uint32_t at = hash(first, second);

	for (;; at++) {
		uint32_t *slot = &map->slots[at & (map->size - 1)];
		const struct pair *pair = &map->pairs[*slot - 1];

		if (!*slot || (pair->first == first && pair->second == second))
			return slot;
	}
}

static void grow(struct map *map)
{
	map->size = map->size ? 2 * map->size : FIRST_SIZE;
	map->slots = grown(map->slots, map->size, sizeof(*map->slots));
	map->pairs = grown(map->pairs, map->size / 2, sizeof(*map->pairs));
	memset(map->slots, 0, map->size * sizeof(*map->slots));
	for (uint32_t i = 0; i < map->count; i++)
		*slot_of(map, map->pairs[i].first, map->pairs[i].second) = i + 1;
}

uint32_t map_number(struct map *map, uint64_t first, uint64_t second)
{
	uint32_t *slot;

	if (2 * map->count >= map->size)
		grow(map);
	slot = slot_of(map, first, second);
	if (!*slot) {
		map->pairs[map->count] = (struct pair){ first, second };
		*slot = ++map->count;
	}
	return *slot - 1;
}

void map_clear(struct map *map)
{
	map->count = 0;
	if (map->size)
		memset(map->slots, 0, map->size * sizeof(*map->slots));
}

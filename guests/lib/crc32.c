// SPDX-License-Identifier: MIT OR Apache-2.0
#include "crc32.h"

static uint32_t table[256];

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] & 1 ? 0xedb88320 ^ (table[i] >> 1) : table[i] >> 1;
	}
}

uint32_t crc32_of(const void *data, size_t size)
{
	const uint8_t *bytes = data;
	uint32_t crc = 0xffffffff;

	if (!table[1])
		fill_table();
	while (size--)
		crc = table[(crc ^ *bytes++) & 0xff] ^ (crc >> 8);
	return ~crc;
}

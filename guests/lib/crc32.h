/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_CRC32_H
#define PAGETOLL_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC-32 of IEEE 802.3, as zlib's crc32(). */
uint32_t crc32_of(const void *data, size_t size);

#endif

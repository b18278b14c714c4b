/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carries bulk data out of the guest, and orders in: QEMU's ivshmem-plain device, whose second BAR is a file of the host.
 * The console says how many bytes of it are meant, and their CRC-32. Each kind of guest has its own implementation.
 */
#ifndef PAGETOLL_SHARED_MEMORY_H
#define PAGETOLL_SHARED_MEMORY_H

#include <stddef.h>

#define IVSHMEM_VENDOR 0x1af4u
#define IVSHMEM_DEVICE 0x1110u

#define BLOB_RESULT "{\"kind\":\"blob\",\"name\":\"%s\",\"bytes\":%zu,\"crc32\":\"%x\"}"

/* Appends to what the device's memory holds; the first call maps the device. Ends the guest when there is no room. */
void shared_append(const void *data, size_t size);

/* Reports what it holds as the blob `name`. */
void shared_report(const char *name);

/* Calls `take` with its first MiB, as the host has filled it. */
void shared_receive(void (*take)(const char *memory, size_t size));

#endif

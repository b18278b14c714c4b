/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Carries bulk data out of the guest: QEMU's ivshmem-plain device, whose second BAR is a file of the host's.
 * The console says how many bytes of it are meant, and their CRC-32.
 */
#ifndef PAGETOLL_SHARED_MEMORY_H
#define PAGETOLL_SHARED_MEMORY_H

#include <stddef.h>

/* Copies `size` bytes to the start of the device's memory and reports them as {"kind":"blob","name":...}. */
void shared_memory_put(const char *name, const void *data, size_t size);

#endif

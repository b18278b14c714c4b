/* SPDX-License-Identifier: GPL-2.0-only */
/* Carries bulk data out, as guests/init/shared_memory.h does: QEMU's ivshmem-plain device. */
#ifndef PAGETOLL_PV32_SHARED_H
#define PAGETOLL_PV32_SHARED_H

#include <stddef.h>

/* Adds to what the device holds. */
void shared_append(const void *data, size_t size);

/* Reports what it holds as a blob of that name. */
void shared_report(const char *name);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Xen's parameters that can be read and changed while it runs. Each ends the guest where it fails. */
#ifndef PAGETOLL_HYPFS_H
#define PAGETOLL_HYPFS_H

#include <stdint.h>

/* public/hypfs.h */
enum hypfs_type {
	HYPFS_UINT = 3,
	HYPFS_BOOL = 5,
};

uint32_t hypfs_parameter(const char *name, enum hypfs_type type);
void hypfs_set_parameter(const char *name, enum hypfs_type type, uint32_t value);

#endif

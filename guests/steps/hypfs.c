// SPDX-License-Identifier: MIT OR Apache-2.0
/* Xen's public/hypfs.h. Memory that Xen reads or writes is locked. */
#include "hypfs.h"

#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "privcmd.h"

#define HYPERVISOR_HYPFS_OP 42

#define HYPFS_READ 1
#define HYPFS_WRITE 2

struct hypfs_entry {
	uint8_t type;
	uint8_t encoding;
	uint16_t pad;
	uint32_t content_len;
	uint32_t max_write_len;
	/* A boolean is its first byte. */
	uint32_t value;
};

static void hypfs(unsigned int command, const char *name, void *data, size_t size)
{
	static char path[64];
	int length = snprintf(path, sizeof(path), "/params/%s", name);
	long ret;

	privcmd_open();
	privcmd_lock(path, sizeof(path));
	privcmd_lock(data, size);
	ret = privcmd_call(HYPERVISOR_HYPFS_OP, (uint64_t[PRIVCMD_ARGUMENTS]){
		command, (uint64_t)path, length + 1, (uint64_t)data, size });
	if (ret)
		fail_with(name, -ret);
}

static size_t size_of(enum hypfs_type type)
{
	return type == HYPFS_BOOL ? sizeof(uint8_t) : sizeof(uint32_t);
}

uint32_t hypfs_parameter(const char *name, enum hypfs_type type)
{
	static struct hypfs_entry entry;

	entry = (struct hypfs_entry){ 0 };
	hypfs(HYPFS_READ, name, &entry, sizeof(entry));
	if (entry.type != type || entry.content_len != size_of(type))
		fail_with(name, EINVAL);
	return entry.value;
}

void hypfs_set_parameter(const char *name, enum hypfs_type type, uint32_t value)
{
	hypfs(HYPFS_WRITE, name, &value, size_of(type));
}

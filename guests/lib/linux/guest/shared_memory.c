// SPDX-License-Identifier: MIT OR Apache-2.0
#include "../../shared_memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../../crc32.h"
#include "../fail.h"
#include "pci.h"

/* Region 2 is the memory: QEMU's docs/specs/ivshmem-spec.txt. */
#define MEMORY 2

/* Of what is received: the time that it takes to map it is the guest's. */
#define MOST_RECEIVED ((size_t)1 << 20)

static struct {
	uint8_t *memory;
	size_t size;
	size_t used;
} device = { .size = SIZE_MAX };

void shared_append(const void *data, size_t size)
{
	if (!device.memory) {
		device.memory = pci_map(IVSHMEM_VENDOR, IVSHMEM_DEVICE, MEMORY, &device.size);
		/* A fork() whose crossings are traced would copy its entries. */
		if (madvise(device.memory, device.size, MADV_DONTFORK))
			fail("keep the ivshmem device from children");
	}
	if (device.size - device.used < size)
		fail_with("room in the ivshmem device", ENOSPC);
	memcpy(device.memory + device.used, data, size);
	device.used += size;
}

void shared_report(const char *name)
{
	report(BLOB_RESULT, name, device.used, crc32_of(device.memory, device.used));
}

void shared_receive(void (*take)(const char *memory, size_t size))
{
	size_t size = MOST_RECEIVED;
	char *memory = pci_map(IVSHMEM_VENDOR, IVSHMEM_DEVICE, MEMORY, &size);

	take(memory, size);
	/* A process with so much mapped would pay for it at each fork. */
	munmap(memory, size);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the device by configuration mechanism #1 (PCI Local Bus Specification 3.0, 3.2.2.3.2), whose ports dom0 may use
 * once its I/O privilege level allows it; Xen emulates each access.
 */
#include "../lib/shared_memory.h"

#include "../lib/crc32.h"
#include "freestanding/console.h"
#include "memory.h"
#include "freestanding/string.h"

#define CONFIG_ADDRESS 0xcf8
#define CONFIG_DATA 0xcfc
#define CONFIG_ENABLE 0x80000000u
#define CONFIG_COMMAND 0x04
#define CONFIG_BAR2 0x18
#define COMMAND_MEMORY 2u
#define SLOTS 32u
/* The first word of the configuration space. */
#define IVSHMEM_IDS (IVSHMEM_DEVICE << 16 | IVSHMEM_VENDOR)

static size_t used;
static int is_mapped;

static void out32(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static uint32_t in32(uint16_t port)
{
	uint32_t value;

	__asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static uint32_t config_read(unsigned int slot, unsigned int place)
{
	out32(CONFIG_ADDRESS, CONFIG_ENABLE | slot << 11 | place);
	return in32(CONFIG_DATA);
}

static void config_write(unsigned int slot, unsigned int place, uint32_t value)
{
	out32(CONFIG_ADDRESS, CONFIG_ENABLE | slot << 11 | place);
	out32(CONFIG_DATA, value);
}

static void allow_ports(void)
{
	static uint32_t level = 1;

	must("set the I/O privilege level", hypercall2(HYPERVISOR_PHYSDEV_OP, PHYSDEVOP_SET_IOPL, (uint32_t)&level));
}

static unsigned int find_device(void)
{
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		if (config_read(slot, 0) == IVSHMEM_IDS)
			return slot;
	fail_with("find the ivshmem device", ENODEV);
}

static void map_device(void)
{
	unsigned int slot;
	uint64_t place;

	allow_ports();
	slot = find_device();
	place = (config_read(slot, CONFIG_BAR2) & ~0xfu) | (uint64_t)config_read(slot, CONFIG_BAR2 + 4) << 32;
	config_write(slot, CONFIG_COMMAND, config_read(slot, CONFIG_COMMAND) | COMMAND_MEMORY);
	for (uint32_t at = 0; at < SHARED_SPAN; at += PAGE_SIZE)
		map_frame(SHARED_BASE + at, (place + at) | PTE_PRESENT | PTE_WRITABLE | PTE_ACCESSED | PTE_DIRTY, DOMID_IO);
	is_mapped = 1;
}

void shared_append(const void *data, size_t size)
{
	if (!is_mapped)
		map_device();
	if (SHARED_SPAN - used < size)
		fail_with("room in the ivshmem device", ENOSPC);
	memcpy((void *)(SHARED_BASE + used), data, size);
	used += size;
}

void shared_report(const char *name)
{
	report(BLOB_RESULT, name, used, crc32_of((const void *)SHARED_BASE, used));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#include "edu.h"

#include <errno.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"

#define VENDOR 0x1234
#define DEVICE 0x11e8

#define SOURCE 0x80
#define DESTINATION 0x88
#define COUNT 0x90
#define COMMAND 0x98
#define START 1
#define FROM_DEVICE 2
#define BUFFER 0x40000
/* Bytes of a transfer. QEMU 7.2 ends the machine when one fills the device's whole buffer of 4 KiB. */
#define WORD 8

/* A transfer takes 100 ms of guest time; idle guest time costs the host nothing. */
#define POLL_NS 5000000l
#define POLLS 400

static bool has_id(const char *device, const char *name, long expected)
{
	char path[PATH_MAX], text[32];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, name);
	read_line(path, text, sizeof(text));
	return strtol(text, NULL, 16) == expected;
}

bool edu_is(const char *device)
{
	return has_id(device, "vendor", VENDOR) && has_id(device, "device", DEVICE);
}

static struct vfio_region_info region(const struct vfio *vfio, uint32_t index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };

	if (ioctl(vfio->device, VFIO_DEVICE_GET_REGION_INFO, &info) < 0)
		fail("VFIO_DEVICE_GET_REGION_INFO");
	return info;
}

static void master_the_bus(const struct vfio *vfio)
{
	off_t at = region(vfio, VFIO_PCI_CONFIG_REGION_INDEX).offset + PCI_COMMAND;
	uint16_t command;

	if (pread(vfio->device, &command, sizeof(command), at) != sizeof(command))
		fail("read the device's PCI command");
	command |= PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY;
	if (pwrite(vfio->device, &command, sizeof(command), at) != sizeof(command))
		fail("write the device's PCI command");
}

struct edu edu_open(const struct vfio *vfio)
{
	struct vfio_region_info bar = region(vfio, VFIO_PCI_BAR0_REGION_INDEX);
	void *registers;

	master_the_bus(vfio);
	registers = mmap(NULL, EDU_REGISTERS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->device, bar.offset);
	if (registers == MAP_FAILED)
		fail("map the device's registers");
	return (struct edu){ .registers = registers };
}

void edu_close(struct edu *edu)
{
	munmap((void *)edu->registers, EDU_REGISTERS_SIZE);
}

static void write64(const struct edu *edu, uint32_t at, uint64_t value)
{
	*(volatile uint64_t *)(edu->registers + at) = value;
}

static void transfer(const struct edu *edu, uint64_t source, uint64_t destination, uint64_t command)
{
	write64(edu, SOURCE, source);
	write64(edu, DESTINATION, destination);
	write64(edu, COUNT, WORD);
	write64(edu, COMMAND, command | START);
	for (int i = 0; i < POLLS; i++) {
		if (!(*(volatile uint64_t *)(edu->registers + COMMAND) & START))
			return;
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	fail_with("a transfer by the device", ETIMEDOUT);
}

void edu_fetch(const struct edu *edu, uint64_t iova)
{
	transfer(edu, iova, BUFFER, 0);
}

void edu_store(const struct edu *edu, uint64_t iova)
{
	transfer(edu, BUFFER, iova, FROM_DEVICE);
}

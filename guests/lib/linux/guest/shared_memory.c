// SPDX-License-Identifier: MIT OR Apache-2.0
#include "../../shared_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../crc32.h"
#include "../fail.h"
#include "../file.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

static struct {
	uint8_t *memory;
	size_t size;
	size_t used;
} device;

static unsigned long read_id(const char *name, const char *what)
{
	char path[PATH_MAX], text[32];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", name, what);
	read_line(path, text, sizeof(text));
	return strtoul(text, NULL, 16);
}

static int open_memory(const char *name)
{
	char path[PATH_MAX];
	int fd;

	/* Memory decoding is off until a driver, or this, enables the device. */
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/enable", name);
	write_file(path, "1");
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource2", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	return fd;
}

static int find_memory(void)
{
	DIR *devices = opendir(PCI_DEVICES);
	struct dirent *entry;
	int fd = -1;

	if (!devices)
		fail("open " PCI_DEVICES);
	while (fd < 0 && (entry = readdir(devices)))
		if (read_id(entry->d_name, "vendor") == IVSHMEM_VENDOR && read_id(entry->d_name, "device") == IVSHMEM_DEVICE)
			fd = open_memory(entry->d_name);
	closedir(devices);
	if (fd < 0)
		fail_with("find the ivshmem device", ENODEV);
	return fd;
}

static void map_device(void)
{
	int fd = find_memory();
	struct stat info;

	if (fstat(fd, &info) < 0)
		fail("size of the ivshmem device");
	device.size = info.st_size;
	device.memory = mmap(NULL, device.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (device.memory == MAP_FAILED)
		fail("map the ivshmem device");
	close(fd);
}

void shared_append(const void *data, size_t size)
{
	if (!device.memory)
		map_device();
	if (device.size - device.used < size)
		fail_with("room in the ivshmem device", ENOSPC);
	memcpy(device.memory + device.used, data, size);
	device.used += size;
}

void shared_report(const char *name)
{
	report(BLOB_RESULT, name, device.used, crc32_of(device.memory, device.used));
}

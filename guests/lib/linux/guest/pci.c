// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fail.h"
#include "../file.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
/* Of the configuration space (PCI Local Bus Specification 3.0, 6.1). */
#define COMMAND 0x4
#define BASE_ADDRESS_0 0x10
#define INTERRUPT_LINE 0x3c

static unsigned long read_id(const char *name, const char *what)
{
	char path[PATH_MAX], text[32];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", name, what);
	read_line(path, text, sizeof(text));
	return strtoul(text, NULL, 16);
}

/* Its name in sysfs. */
static void find_device(unsigned int vendor, unsigned int device, char *name, size_t size)
{
	DIR *devices = opendir(PCI_DEVICES);
	struct dirent *entry;

	if (!devices)
		fail("open " PCI_DEVICES);
	while ((entry = readdir(devices)))
		if (read_id(entry->d_name, "vendor") == vendor && read_id(entry->d_name, "device") == device)
			break;
	if (!entry)
		fail_with("find a device of the lab's machines", ENODEV);
	snprintf(name, size, "%s", entry->d_name);
	closedir(devices);
}

static int open_region(unsigned int vendor, unsigned int device, unsigned int region)
{
	char name[NAME_MAX + 1], path[PATH_MAX];
	int fd;

	find_device(vendor, device, name, sizeof(name));
	/* Memory decoding is off until a driver, or this, enables the device. */
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/enable", name);
	write_file(path, "1");
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource%u", name, region);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	return fd;
}

void pci_configure(unsigned int vendor, unsigned int device, off_t at, const void *value, size_t size)
{
	char name[NAME_MAX + 1], path[PATH_MAX];
	int fd;

	find_device(vendor, device, name, sizeof(name));
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, value, size, at) != (ssize_t)size)
		fail(path);
	close(fd);
}

void *pci_map(unsigned int vendor, unsigned int device, unsigned int region, size_t *size)
{
	int fd = open_region(vendor, device, region);
	struct stat info;
	void *memory;

	if (fstat(fd, &info) < 0)
		fail("size of a device's memory");
	if (*size > (size_t)info.st_size)
		*size = info.st_size;
	memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("map a device's memory");
	close(fd);
	return memory;
}

void pci_unplug(unsigned int vendor, unsigned int device)
{
	char name[NAME_MAX + 1], path[PATH_MAX];
	uint32_t zero = 0;

	pci_configure(vendor, device, COMMAND, &zero, 2);
	pci_configure(vendor, device, BASE_ADDRESS_0, &zero, 4);
	pci_configure(vendor, device, INTERRUPT_LINE, &zero, 1);
	find_device(vendor, device, name, sizeof(name));
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/remove", name);
	write_file(path, "1");
}

void pci_rescan(void)
{
	write_file("/sys/bus/pci/rescan", "1");
}

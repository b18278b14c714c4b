// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "vfio.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/named.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define IOMMUFD_DEVICE "/dev/iommu"

/* include/uapi/linux/iommufd.h of Linux 6.2, which the oldest supported host lacks: what is used here. */
#define IOMMU_IOAS_MAP _IO(';', 0x85)
#define IOMMU_IOAS_UNMAP _IO(';', 0x86)
#define IOMMU_VFIO_IOAS _IO(';', 0x88)
#define IOMMU_IOAS_MAP_FIXED_IOVA 1
#define IOMMU_IOAS_MAP_WRITEABLE 2
#define IOMMU_IOAS_MAP_READABLE 4

struct ioas_map {
	uint32_t size, flags, ioas, reserved;
	uint64_t addr, length, iova;
};

struct ioas_unmap {
	uint32_t size, ioas;
	uint64_t iova, length;
};

struct vfio_ioas {
	uint32_t size, ioas;
	uint16_t operation, reserved;
};

static char taken[32], group_path[64];

static const char *const interfaces[] = { [TYPE1] = "type1", [IOMMUFD] = "iommufd" };

enum interface interface_find(const char *name)
{
	return (const char *const *)find_named(interfaces, name) - interfaces;
}

const char *interface_name(enum interface interface)
{
	return interfaces[interface];
}

/* The emulated IOMMU has no interrupt remapping, and the device no interrupts. Without the module there is no switch. */
static void allow_unsafe_interrupts(const char *module)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/allow_unsafe_interrupts", module);
	if (!access(path, W_OK))
		write_file(path, "1");
}

void vfio_take(const char *device)
{
	char path[PATH_MAX], target[PATH_MAX] = "";

	snprintf(taken, sizeof(taken), "%s", device);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group", device);
	if (readlink(path, target, sizeof(target) - 1) < 0)
		fail("the device has no IOMMU group: the kernel has no driver for the machine's IOMMU");
	snprintf(group_path, sizeof(group_path), "/dev/vfio/%.40s", basename(target));
	if (access(group_path, R_OK))
		fail("vfio-pci did not take the device");
}

const char *vfio_device(void)
{
	return taken;
}

void vfio_bind(const char *device)
{
	char path[PATH_MAX];

	if (access("/sys/bus/pci/drivers/vfio-pci", F_OK))
		fail("the kernel has no vfio-pci: it is neither built in, nor among the modules that came with the kernel");
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver_override", device);
	write_file(path, "vfio-pci");
	write_file("/sys/bus/pci/drivers_probe", device);
	allow_unsafe_interrupts("vfio_iommu_type1");
	allow_unsafe_interrupts("iommufd");
	vfio_take(device);
}

const char *vfio_unavailable(enum interface interface)
{
	if (interface == IOMMUFD && access(IOMMUFD_DEVICE, F_OK))
		return "the kernel was built without iommufd";
	return NULL;
}

static void enter_container(struct vfio *vfio)
{
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container) < 0)
		fail("VFIO_GROUP_SET_CONTAINER");
	if (vfio->interface == TYPE1 && ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) < 0)
		fail("VFIO_SET_IOMMU");
}

struct vfio vfio_open(enum interface interface)
{
	const char *container = interface == TYPE1 ? "/dev/vfio/vfio" : IOMMUFD_DEVICE;
	struct vfio_ioas ioas = { .size = sizeof(ioas) };
	struct vfio vfio = { .interface = interface };

	vfio.container = open(container, O_RDWR | O_CLOEXEC);
	if (vfio.container < 0)
		fail(container);
	vfio.group = open(group_path, O_RDWR | O_CLOEXEC);
	if (vfio.group < 0)
		fail(group_path);
	enter_container(&vfio);
	vfio.device = ioctl(vfio.group, VFIO_GROUP_GET_DEVICE_FD, taken);
	if (vfio.device < 0)
		fail("VFIO_GROUP_GET_DEVICE_FD");
	if (interface == IOMMUFD && ioctl(vfio.container, IOMMU_VFIO_IOAS, &ioas) < 0)
		fail("IOMMU_VFIO_IOAS");
	vfio.ioas = ioas.ioas;
	return vfio;
}

void vfio_close(struct vfio *vfio)
{
	close(vfio->device);
	close(vfio->group);
	close(vfio->container);
}

static void map_ioas(const struct vfio *vfio, void *addr, uint64_t iova, uint64_t size)
{
	struct ioas_map map = {
		.size = sizeof(map),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_WRITEABLE | IOMMU_IOAS_MAP_READABLE,
		.ioas = vfio->ioas,
		.addr = (uintptr_t)addr,
		.length = size,
		.iova = iova,
	};

	if (ioctl(vfio->container, IOMMU_IOAS_MAP, &map) < 0)
		fail("IOMMU_IOAS_MAP");
}

void vfio_map(const struct vfio *vfio, void *addr, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)addr,
		.iova = iova,
		.size = size,
	};

	if (vfio->interface == IOMMUFD)
		map_ioas(vfio, addr, iova, size);
	else if (ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map) < 0)
		fail("VFIO_IOMMU_MAP_DMA");
}

void vfio_unmap(const struct vfio *vfio, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_unmap unmap = { .argsz = sizeof(unmap), .iova = iova, .size = size };
	struct ioas_unmap of_ioas = { .size = sizeof(of_ioas), .ioas = vfio->ioas, .iova = iova, .length = size };

	if (vfio->interface == IOMMUFD) {
		if (ioctl(vfio->container, IOMMU_IOAS_UNMAP, &of_ioas) < 0)
			fail("IOMMU_IOAS_UNMAP");
	} else if (ioctl(vfio->container, VFIO_IOMMU_UNMAP_DMA, &unmap) < 0) {
		fail("VFIO_IOMMU_UNMAP_DMA");
	}
}

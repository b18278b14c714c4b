/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One PCI device bound to vfio-pci, and the container (VFIO type1 v2) or the I/O address space (iommufd) that translates
 * its DMA: Linux's include/uapi/linux/vfio.h and iommufd.h.
 */
#ifndef PAGETOLL_VFIO_H
#define PAGETOLL_VFIO_H

#include <stddef.h>
#include <stdint.h>

enum interface { TYPE1, IOMMUFD };

/* "type1" or "iommufd"; ends the guest for another name. */
enum interface interface_find(const char *name);
const char *interface_name(enum interface interface);

struct vfio {
	enum interface interface;
	/* /dev/vfio/vfio or /dev/iommu. */
	int container;
	int group;
	int device;
	/* The I/O address space; IOMMUFD only. */
	uint32_t ioas;
};

/* Binds the device to vfio-pci, and takes it. Ends the guest when the kernel has no VFIO. */
void vfio_bind(const char *device);

/* The device of all that follows, which is bound to vfio-pci. Ends the guest when it has no IOMMU group. */
void vfio_take(const char *device);

/* The device that was taken. */
const char *vfio_device(void);

/* Why this kernel cannot map through an interface, or NULL. */
const char *vfio_unavailable(enum interface interface);

/* Opens the device that was taken. */
struct vfio vfio_open(enum interface interface);
void vfio_close(struct vfio *vfio);

/* Maps memory for the device, readable and writable. Ends the guest when the kernel refuses. */
void vfio_map(const struct vfio *vfio, void *addr, uint64_t iova, uint64_t size);
void vfio_unmap(const struct vfio *vfio, uint64_t iova, uint64_t size);

#endif

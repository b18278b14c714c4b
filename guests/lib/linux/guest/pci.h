/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Devices of the lab's machines that have no driver: their memory, by sysfs. */
#ifndef PAGETOLL_PCI_H
#define PAGETOLL_PCI_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Maps region `region` of the first device with these ids, which it enables: `*size` bytes of it, or all, where it has fewer.
 * Ends the guest when there is none.
 */
void *pci_map(unsigned int vendor, unsigned int device, unsigned int region, size_t *size);

/* Writes to the configuration space of the first device with these ids; ends the guest when there is none. */
void pci_configure(unsigned int vendor, unsigned int device, off_t at, const void *value, size_t size);

/*
 * Makes the first device with these ids, which has region 0 alone, what it is when the machine is switched on, and takes it
 * from the kernel, until pci_rescan(). Ends the guest when there is none.
 */
void pci_unplug(unsigned int vendor, unsigned int device);

void pci_rescan(void);

#endif

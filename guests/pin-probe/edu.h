/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The DMA engine of QEMU's edu device: moves a word between a buffer of its own and an I/O virtual address,
 * through the machine's IOMMU. Interface: QEMU's docs/specs/edu.txt.
 */
#ifndef PAGETOLL_EDU_H
#define PAGETOLL_EDU_H

#include <stdbool.h>
#include <stdint.h>

#include "vfio.h"

/* Bytes of the device's registers. */
#define EDU_REGISTERS_SIZE (1ul << 20)

struct edu {
	volatile uint8_t *registers;
};

/* Whether the PCI device is one. */
bool edu_is(const char *device);

/* Maps the registers and lets the device master the bus. */
struct edu edu_open(const struct vfio *vfio);
void edu_close(struct edu *edu);

/* Reads the word at `iova` into the device's buffer. A transfer that the IOMMU blocks is not reported. */
void edu_fetch(const struct edu *edu, uint64_t iova);
/* Writes the device's buffer to the word at `iova`. */
void edu_store(const struct edu *edu, uint64_t iova);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls on the virtual machine of a case. They may be wrong, and the error is the answer. */
#ifndef PAGETOLL_CONFORMANCE_MEMSLOT_H
#define PAGETOLL_CONFORMANCE_MEMSLOT_H

#include <stdbool.h>
#include <stdint.h>

/* The number of a guest_memfd that is none. */
#define NO_GMEM 0xff

/* Whether a virtual machine without slots takes such things. */
bool slot_takes_exit_on_missing(int vm);
bool slot_takes_guest_memfd(int vm);

/* Steps. A slot: number, flags, guest physical address, bytes, address; slot2: and guest_memfd, offset. */
void slot_set(const uint64_t *arguments);
void slot_set2(const uint64_t *arguments);

/* Number, bytes, flags. */
void gmem_create(const uint64_t *arguments);

/* Number. */
void gmem_close(const uint64_t *arguments);

/* Slot. */
void slot_dirty(const uint64_t *arguments);

#endif

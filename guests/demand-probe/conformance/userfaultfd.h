/* SPDX-License-Identifier: GPL-2.0-only */
/* The userfaultfds of a case. Their calls may be wrong, and the error is the answer. Numbers are the kernel's bits. */
#ifndef PAGETOLL_CONFORMANCE_USERFAULTFD_H
#define PAGETOLL_CONFORMANCE_USERFAULTFD_H

#include <stdint.h>

/* Faults in the queues of all userfaultfds. */
struct waiting {
	/* Those that have not been read, and all. */
	unsigned long pending, total;
};

struct waiting uffd_waiting(void);
void uffd_close_all(void);

/*
 * UFFDIO_API with a userfaultfd of its own: the features that this kernel has. It ends the guest where there is no
 * userfaultfd.
 */
uint64_t uffd_features(void);

/* Steps; the first argument is the number of the userfaultfd, and a range is its start and its length. */
void uffd_open(const uint64_t *arguments);
void uffd_close(const uint64_t *arguments);
void uffd_api(const uint64_t *arguments);
void uffd_register(const uint64_t *arguments);
void uffd_unregister(const uint64_t *arguments);
void uffd_wake(const uint64_t *arguments);
void uffd_copy(const uint64_t *arguments);
void uffd_zeropage(const uint64_t *arguments);
void uffd_continue(const uint64_t *arguments);
void uffd_writeprotect(const uint64_t *arguments);
void uffd_poll(const uint64_t *arguments);
void uffd_read(const uint64_t *arguments);

#endif

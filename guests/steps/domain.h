/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Another domain: made by hypercalls, with memory and never run; or one that exists. */
#ifndef PAGETOLL_DOMAIN_H
#define PAGETOLL_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

struct domain {
	uint16_t id;
	uint32_t pages;
	/* As privcmd_map takes them: machine frame numbers of a PV domain, guest frame numbers of another. */
	uint64_t *frames;
};

/*
 * Makes a PV domain, or one whose frames Xen translates by nested paging; returns 0, or a negative errno of Xen's: -EACCES where
 * its domctl interface is none that this knows.
 */
long domain_make(struct domain *domain, bool translated);

/* Gives it memory, so that it has so many pages. */
void domain_populate(struct domain *domain, uint32_t pages);

/* Ends it. Xen keeps what is left of it for as long as one of its pages is mapped anywhere. */
void domain_destroy(struct domain *domain);

/* Finds pages of an existing domain, as many as it has and `most` at most; ends the guest where there is no such domain. */
void domain_find(struct domain *domain, uint16_t id, uint32_t most);

/* Frames that Xen gives to dom0, which runs this, and of which its kernel knows nothing; and back. */
void domain_own_frames(uint64_t *frames, uint32_t count);
void domain_return_frames(uint64_t *frames, uint32_t count);

/* Whether Xen still has it. */
bool domain_exists(const struct domain *domain);

#endif

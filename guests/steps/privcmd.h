/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Hypercalls and foreign mappings of a privileged domain, through Linux's /dev/xen/privcmd. */
#ifndef PAGETOLL_PRIVCMD_H
#define PAGETOLL_PRIVCMD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../lib/linux/fail.h"

/* public/xen.h */
#define HYPERVISOR_SCHED_OP 29

/* Opens it, unless it is open. */
void privcmd_open(void);

#define PRIVCMD_ARGUMENTS 5

/* Memory of hypercalls must stay where it is. */
static inline void privcmd_lock(const void *memory, size_t size)
{
	if (mlock(memory, size) < 0)
		fail("lock a hypercall's memory");
}

/* Each returns what the hypercall returned, or a negative errno. Memory that it reads or writes must be locked. */
long privcmd_call(uint64_t op, const uint64_t arguments[PRIVCMD_ARGUMENTS]);
long privcmd_hypercall(uint64_t op, uint64_t a0, uint64_t a1);

/* Maps frames of another domain with mmap's `protection`; ends the guest when one cannot be mapped. */
void *privcmd_map(unsigned int dom, const uint64_t *frames, unsigned int count, int protection);

/* How Linux reaches Xen's trace. */
extern const struct xentrace_access xentrace_by_privcmd;

/* Puts a mark into Xen's trace: lib/marks.h. */
void privcmd_mark(uint32_t base, uint32_t id);

#endif

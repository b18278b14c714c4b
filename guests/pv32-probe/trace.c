// SPDX-License-Identifier: GPL-2.0-only
#include "trace.h"

#include "freestanding/console.h"
#include "memory.h"

static long sysctl(struct xen_sysctl *call)
{
	return hypercall2(HYPERVISOR_SYSCTL, (uint32_t)call, 0);
}

/* At the next addresses of the trace area. */
static void *map(const uint64_t *frames, unsigned int count, bool writable)
{
	static uint32_t used;
	uint32_t first = TRACE_BASE + used;

	if (TRACE_SPAN - used < count * PAGE_SIZE)
		fail_with("room for the trace buffer", ENOSPC);
	for (unsigned int i = 0; i < count; i++, used += PAGE_SIZE)
		map_frame(TRACE_BASE + used,
			  frames[i] * PAGE_SIZE | PTE_PRESENT | PTE_ACCESSED | (writable ? PTE_WRITABLE : 0), DOMID_XEN);
	return (void *)first;
}

void trace_begin(uint32_t buffer_pages)
{
	static const struct xentrace_access access = { sysctl, map };

	xentrace_begin(&access, buffer_pages);
}

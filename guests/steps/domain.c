// SPDX-License-Identifier: MIT OR Apache-2.0
/* Structures and numbers are those of Xen's public/domctl.h and public/memory.h, versions 4.17 to 4.20. */
#include "domain.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../lib/linux/fail.h"
#include "privcmd.h"

#define HYPERVISOR_MEMORY_OP 12
#define HYPERVISOR_DOMCTL 36

#define XENMEM_POPULATE_PHYSMAP 6

#define DOMCTL_CREATEDOMAIN 1
#define DOMCTL_DESTROYDOMAIN 2
#define DOMCTL_GETDOMAININFO 5
#define DOMCTL_MAX_MEM 11

/* XEN_DOMCTL_INTERFACE_VERSION of 4.17, and of 4.20. What is set here has not moved in between. */
#define OLDEST_DOMCTL 0x15
#define NEWEST_DOMCTL 0x17

#define GRANT_VERSION_1 1
#define EVENT_CHANNELS 1023

/* Its beginning: all that follows is zero, which is a PV domain's default. */
struct createdomain {
	uint32_t ssidref;
	uint8_t handle[16];
	uint32_t flags;
	uint32_t iommu_opts;
	uint32_t max_vcpus;
	uint32_t max_evtchn_port;
	int32_t max_grant_frames;
	int32_t max_maptrack_frames;
	uint32_t grant_opts;
};

struct domctl {
	uint32_t cmd;
	uint32_t interface_version;
	uint16_t domain;
	uint16_t pad[3];
	union {
		struct createdomain create;
		uint64_t max_memkb;
		/* Xen copies all of it, whatever the command. */
		uint8_t all[512];
	};
};

struct memory_reservation {
	uint64_t *frames;
	uint64_t count;
	uint32_t order;
	uint32_t flags;
	uint16_t domain;
};

static uint32_t interface_version = OLDEST_DOMCTL;

/* Memory of hypercalls must stay where it is. */
static void lock(const void *memory, size_t size)
{
	if (mlock(memory, size) < 0)
		fail("lock a hypercall's memory");
}

static long domctl(struct domctl *call)
{
	lock(call, sizeof(*call));
	call->interface_version = interface_version;
	return privcmd_hypercall(HYPERVISOR_DOMCTL, (uint64_t)call, 0);
}

long domain_make(struct domain *domain)
{
	static struct domctl call;
	long error;

	do {
		call = (struct domctl){ .cmd = DOMCTL_CREATEDOMAIN, .create = {
			.max_vcpus = 1,
			.max_evtchn_port = EVENT_CHANNELS,
			.max_grant_frames = -1,
			.max_maptrack_frames = -1,
			.grant_opts = GRANT_VERSION_1,
		} };
		error = domctl(&call);
	} while (error == -EACCES && interface_version++ < NEWEST_DOMCTL);
	*domain = (struct domain){ .id = call.domain };
	return error;
}

void domain_populate(struct domain *domain, uint32_t pages)
{
	static struct domctl limit;
	static struct memory_reservation more;
	uint32_t count = pages > domain->pages ? pages - domain->pages : 0;
	long done;

	domain->frames = realloc(domain->frames, (domain->pages + count) * sizeof(*domain->frames));
	if (!domain->frames)
		fail("allocate a list of frames");
	limit = (struct domctl){ .cmd = DOMCTL_MAX_MEM, .domain = domain->id, .max_memkb = pages * 4ull };
	if (count && domctl(&limit))
		fail("set the memory of another domain");
	more = (struct memory_reservation){ .frames = domain->frames + domain->pages, .count = count, .domain = domain->id };
	/* Guest frame numbers go in, machine frame numbers come out. */
	for (uint32_t i = 0; i < count; i++)
		more.frames[i] = domain->pages + i;
	lock(&more, sizeof(more));
	lock(more.frames, count * sizeof(*more.frames));
	done = privcmd_hypercall(HYPERVISOR_MEMORY_OP, XENMEM_POPULATE_PHYSMAP, (uint64_t)&more);
	if (done != count)
		fail_with("populate another domain", done < 0 ? -done : ENOMEM);
	domain->pages += count;
}

void domain_destroy(struct domain *domain)
{
	static struct domctl call;

	call = (struct domctl){ .cmd = DOMCTL_DESTROYDOMAIN, .domain = domain->id };
	if (domctl(&call))
		fail("destroy another domain");
	free(domain->frames);
	domain->frames = NULL;
	domain->pages = 0;
}

bool domain_exists(const struct domain *domain)
{
	static struct domctl call;

	/* It finds this domain, or the one after it. */
	call = (struct domctl){ .cmd = DOMCTL_GETDOMAININFO, .domain = domain->id };
	return !domctl(&call) && call.domain == domain->id;
}

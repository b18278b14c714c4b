// SPDX-License-Identifier: MIT OR Apache-2.0
/* Structures and numbers are those of Xen's public/domctl.h and public/memory.h, versions 4.17 to 4.20. */
#include "domain.h"

#include <errno.h>
#include <stdlib.h>

#include "../lib/linux/fail.h"
#include "privcmd.h"

#define HYPERVISOR_MEMORY_OP 12
#define HYPERVISOR_DOMCTL 36

#define XENMEM_INCREASE_RESERVATION 0
#define XENMEM_DECREASE_RESERVATION 1
#define XENMEM_MAXIMUM_RAM_PAGE 2
#define XENMEM_POPULATE_PHYSMAP 6
#define XENMEM_MAXIMUM_GPFN 14

#define DOMCTL_CREATEDOMAIN 1
#define DOMCTL_DESTROYDOMAIN 2
#define DOMCTL_GETDOMAININFO 5
#define DOMCTL_MAX_MEM 11
#define DOMCTL_GETPAGEFRAMEINFO3 61

/* XEN_DOMCTL_INTERFACE_VERSION of 4.6, and far beyond 4.21. What is read here has not moved since. */
#define FIRST_DOMCTL 0x0b
#define LAST_DOMCTL 0x3f
/* That of 4.17, and of 4.20: what createdomain takes is the same in these. */
#define OLDEST_CREATEDOMAIN 0x15
#define NEWEST_CREATEDOMAIN 0x17
/* That of 4.19, after which another word comes before what a translated domain takes. */
#define NEWEST_EMULATION_FLAGS 0x16

#define DOM0 0
#define DOMID_SELF 0x7ff0

#define DOMINF_DYING 1
#define DOMINF_HVM_GUEST 2
/* Types of frames from here on are of none that could be mapped: broken, allocate-only, not of this domain. */
#define PFINFO_BROKEN (0xdull << 28)
/* Frames that getpageframeinfo3 takes at once. */
#define MOST_FRAMES 1024

#define CDF_HVM 1
#define CDF_HAP 2
#define EMULATE_LAPIC 1

#define GRANT_VERSION_1 1
#define EVENT_CHANNELS 1023

/* Its beginning: all that follows is zero, which is a PV domain's default. From 4.20 on the last three begin a word later. */
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
	uint32_t vmtrace_size;
	uint32_t cpupool_id;
	uint32_t emulation_flags;
};

/* Its beginning. */
struct domaininfo {
	uint16_t domain;
	uint16_t pad;
	uint32_t flags;
	uint64_t pages;
};

struct pageframeinfo {
	uint64_t count;
	/* Frame numbers go in, types come out. */
	uint64_t *frames;
};

struct domctl {
	uint32_t cmd;
	uint32_t interface_version;
	uint16_t domain;
	uint16_t pad[3];
	union {
		struct createdomain create;
		struct domaininfo info;
		struct pageframeinfo types;
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

static long versioned(struct domctl *call, uint32_t version)
{
	privcmd_lock(call, sizeof(*call));
	call->interface_version = version;
	return privcmd_hypercall(HYPERVISOR_DOMCTL, (uint64_t)call, 0);
}

/* Xen answers EACCES to a version that is not its own. */
static uint32_t interface_version(void)
{
	static uint32_t found;
	static struct domctl call;

	for (uint32_t version = FIRST_DOMCTL; version <= LAST_DOMCTL && !found; version++) {
		call = (struct domctl){ .cmd = DOMCTL_GETDOMAININFO };
		if (versioned(&call, version) != -EACCES)
			found = version;
	}
	return found;
}

static long domctl(struct domctl *call)
{
	return versioned(call, interface_version());
}

long domain_make(struct domain *domain, bool translated)
{
	static struct domctl call;
	uint32_t newest = translated ? NEWEST_EMULATION_FLAGS : NEWEST_CREATEDOMAIN;
	long error = -EACCES;

	call = (struct domctl){ .cmd = DOMCTL_CREATEDOMAIN, .create = {
		.flags = translated ? CDF_HVM | CDF_HAP : 0,
		.emulation_flags = translated ? EMULATE_LAPIC : 0,
		.max_vcpus = 1,
		.max_evtchn_port = EVENT_CHANNELS,
		.max_grant_frames = -1,
		.max_maptrack_frames = -1,
		.grant_opts = GRANT_VERSION_1,
	} };
	if (interface_version() >= OLDEST_CREATEDOMAIN && interface_version() <= newest)
		error = domctl(&call);
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
	privcmd_lock(&more, sizeof(more));
	privcmd_lock(more.frames, count * sizeof(*more.frames));
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

/* False where there is no such domain. */
static bool domain_info(uint16_t id, struct domaininfo *info)
{
	static struct domctl call;
	long error;

	/* It finds this domain, or the one after it. */
	call = (struct domctl){ .cmd = DOMCTL_GETDOMAININFO, .domain = id };
	error = domctl(&call);
	*info = call.info;
	return !error && call.domain == id;
}

bool domain_exists(const struct domain *domain)
{
	struct domaininfo info;

	return domain_info(domain->id, &info);
}

/* Changes what this domain has by so many frames; `frames` come from Xen, or go there. */
static void reserve(uint64_t operation, uint64_t *frames, uint32_t count)
{
	static struct memory_reservation own;
	long done;

	own = (struct memory_reservation){ .frames = frames, .count = count, .domain = DOMID_SELF };
	privcmd_lock(&own, sizeof(own));
	privcmd_lock(frames, count * sizeof(*frames));
	done = privcmd_hypercall(HYPERVISOR_MEMORY_OP, operation, (uint64_t)&own);
	if (done != count)
		fail_with("change this domain's reservation", done < 0 ? -done : ENOMEM);
}

void domain_own_frames(uint64_t *frames, uint32_t count)
{
	static struct domctl limit;
	struct domaininfo info;

	if (!domain_info(DOM0, &info))
		fail("look at dom0");
	limit = (struct domctl){ .cmd = DOMCTL_MAX_MEM, .domain = DOM0, .max_memkb = (info.pages + count) * 4 };
	if (domctl(&limit))
		fail("set the memory of dom0");
	reserve(XENMEM_INCREASE_RESERVATION, frames, count);
}

void domain_return_frames(uint64_t *frames, uint32_t count)
{
	reserve(XENMEM_DECREASE_RESERVATION, frames, count);
}

/* The number after that of the last frame that the domain may have. */
static uint64_t end_of_frames(uint16_t id, bool translated)
{
	static uint16_t domain;
	long last;

	domain = id;
	privcmd_lock(&domain, sizeof(domain));
	last = translated ? privcmd_hypercall(HYPERVISOR_MEMORY_OP, XENMEM_MAXIMUM_GPFN, (uint64_t)&domain) :
			    privcmd_hypercall(HYPERVISOR_MEMORY_OP, XENMEM_MAXIMUM_RAM_PAGE, 0);
	if (last < 0)
		fail_with("find the last frame of Xen", -last);
	return last + 1;
}

/* Adds those of the frames that are memory of the domain. */
static void find_among(struct domain *domain, uint64_t first, uint64_t count, uint32_t most)
{
	static struct domctl call;
	static uint64_t types[MOST_FRAMES];
	long error;

	for (uint64_t i = 0; i < count; i++)
		types[i] = first + i;
	privcmd_lock(types, sizeof(types));
	call = (struct domctl){ .cmd = DOMCTL_GETPAGEFRAMEINFO3, .domain = domain->id, .types = { count, types } };
	error = domctl(&call);
	if (error)
		fail_with("ask for the types of another domain's frames", -error);
	for (uint64_t i = 0; i < count && domain->pages < most; i++)
		if ((types[i] & (0xfull << 28)) < PFINFO_BROKEN)
			domain->frames[domain->pages++] = first + i;
}

void domain_find(struct domain *domain, uint16_t id, uint32_t most)
{
	struct domaininfo info;
	uint64_t end;

	if (!domain_info(id, &info) || info.flags & DOMINF_DYING)
		fail_with("there is no such domain", ESRCH);
	*domain = (struct domain){ .id = id, .frames = calloc(most, sizeof(*domain->frames)) };
	if (!domain->frames)
		fail("allocate a list of frames");
	end = end_of_frames(id, info.flags & DOMINF_HVM_GUEST);
	for (uint64_t first = 0; first < end && domain->pages < most; first += MOST_FRAMES)
		find_among(domain, first, end - first < MOST_FRAMES ? end - first : MOST_FRAMES, most);
	if (!domain->pages)
		fail_with("that domain has no memory", ENOMEM);
}

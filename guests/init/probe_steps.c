// SPDX-License-Identifier: MIT OR Apache-2.0
/* The steps that need /dev/xen-probe: clear and race. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../xen-probe/xen_probe_abi.h"
#include "report.h"
#include "steps.h"

#define PAGE 4096ul
#define TABLE_SPAN (512 * PAGE)
/* The race runs over a few tables: small enough that all stays in QEMU's TLB. */
#define RACE_PAGES 2048u

static const char *const mechanisms[XEN_PROBE_MECHANISMS] = {
	[XEN_PROBE_READ] = "read",
	[XEN_PROBE_EMPTY_HYPERCALL] = "empty-hypercall",
	[XEN_PROBE_EMULATE] = "emulate",
	[XEN_PROBE_SET_PTE] = "set-pte",
	[XEN_PROBE_UPDATE_VA] = "update-va",
	[XEN_PROBE_LAZY] = "lazy",
	[XEN_PROBE_MMU_UPDATE] = "mmu-update",
	[XEN_PROBE_PRESERVE_AD] = "preserve-ad",
};

/* Anonymous pages beginning on a 2 MiB boundary, each with 0 written to it: the rounds of a race start at 1. */
struct region {
	void *map;
	size_t map_size;
	volatile uint32_t *first;
	uint32_t pages;
};

static int probe_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(XEN_PROBE_DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("open " XEN_PROBE_DEVICE);
	return fd;
}

static uint32_t find_mechanism(const char *name)
{
	for (uint32_t i = 0; i < XEN_PROBE_MECHANISMS; i++)
		if (!strcmp(mechanisms[i], name))
			return i;
	errno = EINVAL;
	fail(name);
}

static volatile uint32_t *page(const struct region *region, uint32_t index)
{
	return (volatile uint32_t *)((uintptr_t)region->first + index * PAGE);
}

static struct region map_region(uint32_t pages)
{
	struct region region = { .map_size = pages * PAGE + TABLE_SPAN, .pages = pages };

	region.map = mmap(NULL, region.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region.map == MAP_FAILED)
		fail("map pages");
	madvise(region.map, region.map_size, MADV_NOHUGEPAGE);
	region.first = (void *)(((uintptr_t)region.map + TABLE_SPAN - 1) & ~(TABLE_SPAN - 1));
	for (uint32_t i = 0; i < pages; i++)
		*page(&region, i) = 0;
	return region;
}

static void unmap_region(struct region *region)
{
	if (munmap(region->map, region->map_size) < 0)
		fail("munmap");
}

static void age(const struct region *region, uint32_t every, uint32_t first, int keep_dirty)
{
	struct xen_probe_age request = {
		.addr = (uintptr_t)region->first, .pages = region->pages,
		.every = every, .first = first, .keep_dirty = keep_dirty,
	};

	if (ioctl(probe_fd(), XEN_PROBE_IOC_AGE, &request) < 0)
		fail("XEN_PROBE_IOC_AGE");
}

/* Page i gets class i mod 4: neither bit, A by a read, A and D by a write, D by a write whose A is taken away. */
static void make_classes(const struct region *region)
{
	age(region, 1, 0, 0);
	for (uint32_t i = 0; i < region->pages; i++) {
		if (i % 4 == 1)
			(void)*page(region, i);
		else if (i % 4 >= 2)
			*page(region, i) = i;
	}
	age(region, 4, 3, 1);
}

static void format_faults(char *out, size_t size, const struct xen_probe_faults *f)
{
	snprintf(out, size,
		 "{\"lost_accessed\":%llu,\"lost_dirty\":%llu,\"wrong_frame\":%llu,\"wrong_flags\":%llu,\"not_none\":%llu,\"refused\":%llu}",
		 f->lost_accessed, f->lost_dirty, f->wrong_frame, f->wrong_flags, f->not_none, f->refused);
}

/* The pages are put back as they were by each step, so steps of one size share them. */
static struct region clear_region;

void step_release(void)
{
	if (clear_region.map)
		unmap_region(&clear_region);
	clear_region.map = NULL;
}

static const struct region *region_of(uint32_t pages)
{
	if (clear_region.pages != pages)
		step_release();
	if (!clear_region.map)
		clear_region = map_region(pages);
	return &clear_region;
}

void step_clear(const char *mechanism, uint32_t batch, uint32_t pages, uint32_t mark)
{
	const struct region *region = region_of(pages);
	struct xen_probe_clear request = {
		.addr = (uintptr_t)region->first, .pages = pages,
		.mechanism = find_mechanism(mechanism), .batch = batch, .mark = mark,
	};
	char faults[256];

	make_classes(region);
	if (ioctl(probe_fd(), XEN_PROBE_IOC_CLEAR, &request) < 0)
		fail("XEN_PROBE_IOC_CLEAR");
	format_faults(faults, sizeof(faults), &request.faults);
	report("{\"kind\":\"clear\",\"mechanism\":\"%s\",\"batch\":%u,\"pages\":%u,\"mark\":%d,\"instructions\":%llu,"
	       "\"classes\":[%llu,%llu,%llu,%llu],\"faults\":%s}",
	       mechanism, batch, pages, (int)mark, request.instructions, request.classes[0], request.classes[1],
	       request.classes[2], request.classes[3], faults);
}

static void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("pin a thread to a vCPU");
}

static void *dirty_thread(void *argument)
{
	(void)argument;
	pin_to_cpu(1);
	if (ioctl(probe_fd(), XEN_PROBE_IOC_DIRTY) < 0)
		fail("XEN_PROBE_IOC_DIRTY");
	return NULL;
}

void step_race(const char *mechanism, uint32_t batch, uint64_t dirtied, uint32_t limit_ms)
{
	struct region region = map_region(RACE_PAGES);
	struct xen_probe_race request = {
		.addr = (uintptr_t)region.first, .pages = region.pages, .mechanism = find_mechanism(mechanism),
		.batch = batch, .limit_ms = limit_ms, .dirtied = dirtied,
	};
	char faults[256];
	pthread_t thread;

	pin_to_cpu(0);
	if ((errno = pthread_create(&thread, NULL, dirty_thread, NULL)))
		fail("start a thread");
	if (ioctl(probe_fd(), XEN_PROBE_IOC_RACE, &request) < 0)
		fail("XEN_PROBE_IOC_RACE");
	ioctl(probe_fd(), XEN_PROBE_IOC_DIRTY_STOP);
	pthread_join(thread, NULL);
	unmap_region(&region);
	format_faults(faults, sizeof(faults), &request.faults);
	report("{\"kind\":\"race\",\"mechanism\":\"%s\",\"batch\":%u,\"dirtied\":%llu,\"accessed\":%llu,\"rounds\":%llu,\"faults\":%s}",
	       mechanism, batch, request.dirtied, request.accessed, request.rounds, faults);
}

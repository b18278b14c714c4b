// SPDX-License-Identifier: MIT OR Apache-2.0
/* The steps that need /dev/xen-probe: clear, set, repeat and race. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/page.h"
#include "../lib/linux/process.h"
#include "../lib/results.h"
#include "probe.h"
#include "steps.h"

#define TABLE_SPAN (512 * PAGE)
/* A race runs over a few tables, which stay in QEMU's TLB. */
#define RACE_PAGES 2048u

static const char *const mechanisms[] = {
#define MECHANISM(number, name, function, feature) name,
	XEN_PROBE_EACH_MECHANISM(MECHANISM)
#undef MECHANISM
};

static const char *const set_mechanisms[XEN_PROBE_SET_MECHANISMS] = {
	[XEN_PROBE_SET_EMULATE] = "emulate",
	[XEN_PROBE_SET_HYPERCALL] = "hypercall",
};

static const struct {
	const char *operation;
	const char *mechanism;
} repeated[XEN_PROBE_REPEATED] = {
	[XEN_PROBE_REPEAT_NOTHING] = { "baseline", "nothing" },
	[XEN_PROBE_REPEAT_EMPTY_HYPERCALL] = { "baseline", "empty-hypercall" },
	[XEN_PROBE_REPEAT_TLS_SAME_ALWAYS] = { "none-changed", "always" },
	[XEN_PROBE_REPEAT_TLS_SAME_IF_CHANGED] = { "none-changed", "if-changed" },
	[XEN_PROBE_REPEAT_TLS_ONE_ALWAYS] = { "one-changed", "always" },
	[XEN_PROBE_REPEAT_TLS_ONE_IF_CHANGED] = { "one-changed", "if-changed" },
	[XEN_PROBE_REPEAT_TLS_ALL_ALWAYS] = { "all-changed", "always" },
	[XEN_PROBE_REPEAT_TLS_ALL_IF_CHANGED] = { "all-changed", "if-changed" },
	[XEN_PROBE_REPEAT_UNMASK_IDLE_ALWAYS] = { "none-pending", "always" },
	[XEN_PROBE_REPEAT_UNMASK_IDLE_IF_PENDING] = { "none-pending", "if-pending" },
	[XEN_PROBE_REPEAT_UNMASK_PENDING_ALWAYS] = { "one-pending", "always" },
	[XEN_PROBE_REPEAT_UNMASK_PENDING_IF_PENDING] = { "one-pending", "if-pending" },
	[XEN_PROBE_REPEAT_FLUSH_LOCAL] = { "flush-local", "mmuext_op" },
	[XEN_PROBE_REPEAT_FLUSH_ALL] = { "flush-all", "mmuext_op" },
	[XEN_PROBE_REPEAT_INVLPG_LOCAL] = { "invlpg-local", "mmuext_op" },
	[XEN_PROBE_REPEAT_NEW_BASEPTR] = { "new-baseptr", "mmuext_op" },
};

/* Anonymous pages from a 2 MiB boundary on, each written with 0: the rounds of a race start at 1. */
struct region {
	void *map;
	size_t map_size;
	volatile uint32_t *first;
	uint32_t pages;
};

void probe_ioctl(unsigned long request, void *argument, const char *what)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(XEN_PROBE_DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("open " XEN_PROBE_DEVICE);
	if (ioctl(fd, request, argument) < 0)
		fail(what);
}

static uint32_t find_mechanism(const char *name)
{
	return (const char *const *)find_named(mechanisms, name) - mechanisms;
}

static uint32_t find_repeated(const char *operation, const char *mechanism)
{
	for (uint32_t i = 0; i < XEN_PROBE_REPEATED; i++)
		if (!strcmp(repeated[i].operation, operation) && !strcmp(repeated[i].mechanism, mechanism))
			return i;
	fail_with(operation, EINVAL);
}

/* The address of a kernel variable; of a per-CPU one, its offset in each CPU's area. */
static uint64_t kernel_symbol(const char *wanted)
{
	unsigned long long address, found = 0;
	FILE *symbols = fopen("/proc/kallsyms", "re");
	char line[512], name[256];

	if (!symbols)
		fail("open /proc/kallsyms");
	while (!found && fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %*c %255s", &address, name) == 2 && !strcmp(name, wanted))
			found = address;
	fclose(symbols);
	if (!found)
		fail_with(wanted, ENOENT);
	return found;
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

/* Each step leaves the pages as they were, so steps of one size share them. */
static struct region shared_region;

void step_release(void)
{
	if (shared_region.map)
		unmap_region(&shared_region);
	shared_region.map = NULL;
}

static const struct region *region_of(uint32_t pages)
{
	if (shared_region.pages != pages)
		step_release();
	if (!shared_region.map)
		shared_region = map_region(pages);
	return &shared_region;
}

void step_clear(const char *mechanism, uint32_t batch, uint32_t pages, uint32_t mark)
{
	struct xen_probe_clear request = {
		.addr = (uintptr_t)region_of(pages)->first, .pages = pages,
		.mechanism = find_mechanism(mechanism), .batch = batch, .mark = mark,
	};
	const struct xen_probe_faults *faults = &request.faults;
	const __u64 *classes = request.classes;

	ask_probe(XEN_PROBE_IOC_CLEAR, &request);
	report(CLEAR_RESULT, mechanism, batch, pages, (int)mark, request.instructions, classes[0], classes[1], classes[2],
	       classes[3], faults->lost_accessed, faults->lost_dirty, faults->wrong_frame, faults->wrong_flags,
	       faults->not_none, faults->refused);
}

void step_set(const char *mechanism, uint32_t pages, uint32_t mark)
{
	struct xen_probe_set request = {
		.addr = (uintptr_t)region_of(pages)->first, .pages = pages, .mark = mark,
		.mechanism = (const char *const *)find_named(set_mechanisms, mechanism) - set_mechanisms,
	};
	const struct xen_probe_faults *faults = &request.faults;

	ask_probe(XEN_PROBE_IOC_SET, &request);
	report(SET_RESULT, "set", mechanism, pages, (int)mark, request.instructions, faults->wrong_frame,
	       faults->wrong_flags, faults->lost_accessed + faults->lost_dirty, faults->refused);
}

/* The check that xen_probe_repeat.wrong counts for. */
static const char *check_of(uint32_t operation)
{
	if (operation >= XEN_PROBE_REPEAT_TLS_SAME_ALWAYS && operation <= XEN_PROBE_REPEAT_TLS_ALL_IF_CHANGED)
		return "descriptors-loaded";
	return "delivered-at-once";
}

void step_repeat(const char *operation, const char *mechanism, uint32_t count, uint32_t mark)
{
	struct xen_probe_repeat request = { .operation = find_repeated(operation, mechanism), .count = count, .mark = mark };
	uint32_t number = request.operation;

	if (number >= XEN_PROBE_REPEAT_UNMASK_IDLE_ALWAYS && number <= XEN_PROBE_REPEAT_UNMASK_PENDING_IF_PENDING)
		request.vcpu_info = kernel_symbol("xen_vcpu_info");
	ask_probe(XEN_PROBE_IOC_REPEAT, &request);
	report("{\"kind\":\"repeat\",\"operation\":\"%s\",\"mechanism\":\"%s\",\"count\":%u,\"mark\":%d,"
	       "\"instructions\":%llu,\"failed\":{\"%s\":%llu,\"accepted\":%llu}}",
	       operation, mechanism, count, (int)mark, request.instructions, check_of(number), request.wrong,
	       request.refused);
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
	ask_probe(XEN_PROBE_IOC_DIRTY, NULL);
	return NULL;
}

void step_race(const char *mechanism, uint32_t batch, uint64_t dirtied, uint32_t limit_ms)
{
	struct region region = map_region(RACE_PAGES);
	struct xen_probe_race request = {
		.addr = (uintptr_t)region.first, .pages = region.pages, .mechanism = find_mechanism(mechanism),
		.batch = batch, .limit_ms = limit_ms, .dirtied = dirtied,
	};
	const struct xen_probe_faults *faults = &request.faults;
	pthread_t thread;

	pin_to_cpu(0);
	thread = start_thread(dirty_thread, NULL);
	ask_probe(XEN_PROBE_IOC_RACE, &request);
	ask_probe(XEN_PROBE_IOC_DIRTY_STOP, NULL);
	pthread_join(thread, NULL);
	unmap_region(&region);
	report("{\"kind\":\"race\",\"mechanism\":\"%s\",\"batch\":%u,\"dirtied\":%llu,\"accessed\":%llu,\"rounds\":%llu,"
	       "\"faults\":" FAULTS_RESULT "}",
	       mechanism, batch, request.dirtied, request.accessed, request.rounds, faults->lost_accessed,
	       faults->lost_dirty, faults->wrong_frame, faults->wrong_flags, faults->not_none, faults->refused);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What it costs to map memory for DMA and to unmap it. Memory is there and written before anything is timed, so that
 * neither page faults nor zeroing are in the figures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../init/clock.h"
#include "../init/report.h"
#include "edu.h"
#include "graph.h"
#include "memory.h"
#include "steps.h"

#define MIB (1ul << 20)
/* Where the device sees the memory: aligned to 1 GiB, beyond what the machine reserves below 4 GiB. */
#define IOVA (16ull << 30)
#define OTHER_IOVA (64ull << 30)
/* A large page, and half of it. */
#define LARGE (2 * MIB)
#define HALF (1 * MIB)
#define MAX_REPEATS 16

/* How a shape is mapped. */
struct shape {
	const char *name;
	/* The memory behind it: see memory.h. */
	const char *memory;
	/* Bytes at the beginning that are not mapped, and bytes of each ioctl; 0: all in one. */
	uint64_t skip, window;
	/* Half of it is mapped at another address beforehand. */
	bool pinned_before;
	/* From what one ioctl maps to what the next does, in bytes; 0: there is nothing between them. */
	uint64_t stride;
};

static const struct shape shapes[] = {
	{ "4K", "4K", 0, 0, false, 0 },
	{ "64K", "64K", 0, 0, false, 0 },
	{ "THP", "THP", 0, 0, false, 0 },
	{ "2M", "2M", 0, 0, false, 0 },
	{ "1G", "1G", 0, 0, false, 0 },
	{ "2M-halves", "2M-split", HALF, LARGE, false, 0 },
	{ "2M-again", "2M", 0, 0, true, 0 },
	/* One page an ioctl, of a large page: what an ioctl and a run cost. */
	{ "2M-single", "2M", 0, PAGE, false, 0 },
	/* The same folios, found by one entry for each 4 KiB. */
	{ "2M-entries", "2M-entries", 0, 0, false, 0 },
	{ "file", "file", 0, 0, false, 0 },
	/* A run for each folio, by one ioctl and by one each: their difference is the ioctls. */
	{ "2M-apart", "2M-split", 0, 0, false, 0 },
	{ "2M-each", "2M-split", 0, LARGE, false, 0 },
	/* A long run that the IOMMU can only map by entries of 4 KiB. */
	{ "2M-shifted", "2M-joined", HALF, 0, false, 0 },
	/* One page of a folio, two, and the last of one with the first of the next: a page and a folio are what differs. */
	{ "2M-first", "2M-joined", 0, PAGE, false, LARGE },
	{ "2M-pairs", "2M-joined", 0, 2 * PAGE, false, LARGE },
	{ "2M-straddle", "2M-joined", LARGE - PAGE, 2 * PAGE, false, LARGE },
};

struct work {
	const struct shape *shape;
	struct vfio vfio;
	struct memory memory;
	uint64_t size;
};

struct counted {
	uint64_t map, unmap;
};

static const struct shape *find_shape(const char *name)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	errno = EINVAL;
	fail(name);
}

static uint64_t window_of(const struct work *work)
{
	return work->shape->window ? work->shape->window : work->size;
}

/* Where the process sees what the device sees at IOVA + at. */
static char *seen_at(const struct work *work, uint64_t at)
{
	uint64_t window = window_of(work), stride = work->shape->stride ? work->shape->stride : window;

	return work->memory.addr + work->shape->skip + at / window * stride + at % window;
}

/* Whole large pages: what is skipped, what is mapped, and what lies between. */
static uint64_t pages_of_memory(const struct bill *bill)
{
	const struct shape *shape = find_shape(bill->shape);
	uint64_t spread = shape->stride ? shape->stride / shape->window : 1;
	uint64_t size = bill->pages * PAGE * spread + shape->skip;

	return shape->skip || shape->stride ? (size + LARGE - 1) / LARGE * (LARGE / PAGE) : bill->pages;
}

static struct counted map_and_unmap(const struct work *work)
{
	uint64_t window = window_of(work), start;
	struct counted counted = { 0 };

	for (uint64_t at = 0; at < work->size; at += window) {
		start = ticks();
		vfio_map(&work->vfio, seen_at(work, at), IOVA + at, window);
		counted.map += ticks() - start;
	}
	for (uint64_t at = 0; at < work->size; at += window) {
		start = ticks();
		vfio_unmap(&work->vfio, IOVA + at, window);
		counted.unmap += ticks() - start;
	}
	return counted;
}

/* Whether the device finds each page that is tried where it belongs; every one is marked first. */
static uint64_t misplaced(const struct work *work, uint64_t tries)
{
	struct memory scratch = memory_get("4K", 1);
	uint64_t pages = work->size / PAGE, step = pages / tries ? pages / tries : 1, wrong = 0;
	struct edu edu = edu_open(&work->vfio);

	vfio_map(&work->vfio, scratch.addr, OTHER_IOVA, PAGE);
	for (uint64_t page = step - 1; page < pages; page += step) {
		volatile uint64_t *mark = (void *)seen_at(work, page * PAGE);

		*mark = 0xfeed000000000000 + page;
		edu_fetch(&edu, IOVA + page * PAGE);
		edu_store(&edu, OTHER_IOVA);
		wrong += *(volatile uint64_t *)scratch.addr != *mark;
	}
	vfio_unmap(&work->vfio, OTHER_IOVA, PAGE);
	edu_close(&edu);
	memory_put(&scratch);
	return wrong;
}

#define TRIES 4

/* Reports how many pages were locked while mapped and after, and how many the device found elsewhere. */
static void check(const struct work *work, uint64_t *locked, uint64_t *left, uint64_t *wrong)
{
	enum interface interface = work->vfio.interface;
	uint64_t window = window_of(work), before = accounted_pages(interface);

	for (uint64_t at = 0; at < work->size; at += window)
		vfio_map(&work->vfio, seen_at(work, at), IOVA + at, window);
	*locked = accounted_pages(interface) - before;
	*wrong = misplaced(work, TRIES);
	for (uint64_t at = 0; at < work->size; at += window)
		vfio_unmap(&work->vfio, IOVA + at, window);
	*left = accounted_pages(interface) - before;
}

static struct work begin(const struct bill *bill)
{
	const struct shape *shape = find_shape(bill->shape);
	struct work work = { .shape = shape, .size = bill->pages * PAGE };

	work.memory = memory_get(shape->memory, pages_of_memory(bill));
	work.vfio = vfio_open(bill->interface);
	if (shape->pinned_before)
		vfio_map(&work.vfio, work.memory.addr, OTHER_IOVA + work.size, work.size / 2);
	return work;
}

static void end(struct work *work)
{
	vfio_close(&work->vfio);
	memory_put(&work->memory);
}

static bool is_unavailable(const struct bill *bill)
{
	const struct shape *shape = find_shape(bill->shape);
	const char *why = vfio_unavailable(bill->interface);

	if (!why)
		why = memory_unavailable(shape->memory, pages_of_memory(bill));
	if (why)
		report("{\"kind\":\"pin-unavailable\",\"interface\":\"%s\",\"shape\":\"%s\",\"reason\":\"%s\"}",
		       bill->interface == TYPE1 ? "type1" : "iommufd", bill->shape, why);
	return why;
}

static void list(char *out, size_t size, const uint64_t *values, uint32_t count)
{
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++)
		used += snprintf(out + used, size - used, "%s%llu", i ? "," : "", (unsigned long long)values[i]);
}

static void report_bill(const struct bill *bill, const struct work *work, const char *counted)
{
	struct layout layout = memory_layout(&work->memory);
	uint64_t locked, left, wrong;

	check(work, &locked, &left, &wrong);
	report("{\"kind\":\"pin\",\"interface\":\"%s\",\"shape\":\"%s\",\"pages\":%llu,\"ioctls\":%llu,%s,"
	       "\"runs\":%llu,\"folios\":%llu,\"largest\":%llu,\"locked\":%llu,\"left\":%llu,\"tried\":%d,\"misplaced\":%llu}",
	       bill->interface == TYPE1 ? "type1" : "iommufd", bill->shape, (unsigned long long)bill->pages,
	       (unsigned long long)(work->size / window_of(work)), counted, (unsigned long long)layout.runs,
	       (unsigned long long)layout.folios, (unsigned long long)layout.largest, (unsigned long long)locked,
	       (unsigned long long)left, TRIES, (unsigned long long)wrong);
}

void step_bill(const struct bill *bill)
{
	uint64_t maps[MAX_REPEATS], unmaps[MAX_REPEATS];
	char counted[1024], map_list[400], unmap_list[400];
	struct counted first;
	struct work work;

	if (is_unavailable(bill))
		return;
	work = begin(bill);
	/* The first pays for the IOMMU's page tables, the second for making the pages active (FOLL_TOUCH). */
	first = map_and_unmap(&work);
	map_and_unmap(&work);
	for (uint32_t i = 0; i < bill->repeats && i < MAX_REPEATS; i++) {
		struct counted once = map_and_unmap(&work);

		maps[i] = once.map;
		unmaps[i] = once.unmap;
	}
	list(map_list, sizeof(map_list), maps, bill->repeats);
	list(unmap_list, sizeof(unmap_list), unmaps, bill->repeats);
	snprintf(counted, sizeof(counted), "\"first_map\":%llu,\"map\":[%s],\"unmap\":[%s]",
		 (unsigned long long)first.map, map_list, unmap_list);
	report_bill(bill, &work, counted);
	end(&work);
}

void step_trace(const struct bill *bill)
{
	struct counted counted;
	struct work work;

	if (is_unavailable(bill))
		return;
	work = begin(bill);
	map_and_unmap(&work);
	graph_begin();
	counted = map_and_unmap(&work);
	graph_end(bill->shape);
	report("{\"kind\":\"pin-traced\",\"interface\":\"%s\",\"shape\":\"%s\",\"pages\":%llu,\"map\":%llu,\"unmap\":%llu}",
	       bill->interface == TYPE1 ? "type1" : "iommufd", bill->shape, (unsigned long long)bill->pages,
	       (unsigned long long)counted.map, (unsigned long long)counted.unmap);
	end(&work);
}

uint64_t accounted_pages(enum interface interface)
{
	const char *format = interface == TYPE1 ? "VmLck: %llu kB" : "VmPin: %llu kB";
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	if (!status)
		fail("open /proc/self/status");
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, format, &kib) == 1)
			break;
	fclose(status);
	return kib / 4;
}

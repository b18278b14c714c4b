// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What mapping memory for DMA and unmapping it costs. Memory is written before anything is timed, so that the figures
 * include neither page faults nor zeroing.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/page.h"
#include "../lib/marks.h"
#include "edu.h"
#include "graph.h"
#include "memory.h"
#include "steps.h"

#define MIB (1ul << 20)
/* Aligned to 1 GiB, above what the machine reserves below 4 GiB. */
#define IOVA (16ull << 30)
#define OTHER_IOVA (64ull << 30)
/* A large page, and half of it. */
#define LARGE (2 * MIB)
#define HALF (1 * MIB)
#define MAX_REPEATS 16

/* How a shape is mapped. */
struct shape {
	const char *name;
	/* See memory.h. */
	const char *memory;
	/* Bytes skipped at the start, and bytes of each ioctl; 0: all in one. */
	uint64_t skip, window;
	/* Half of it is mapped at another address first. */
	bool pinned_before;
	/* Bytes from what one ioctl maps to what the next one does; 0: they are adjacent. */
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
	/* One page an ioctl, of a large page: the cost of an ioctl and a run. */
	{ "2M-single", "2M", 0, PAGE, false, 0 },
	/* The same folios, found by one entry for each 4 KiB. */
	{ "2M-entries", "2M-entries", 0, 0, false, 0 },
	{ "file", "file", 0, 0, false, 0 },
	/* A run for each folio, by one ioctl and by one each: the difference is the ioctls. */
	{ "2M-apart", "2M-split", 0, 0, false, 0 },
	{ "2M-each", "2M-split", 0, LARGE, false, 0 },
	/* A long run that the IOMMU can map only by entries of 4 KiB. */
	{ "2M-shifted", "2M-joined", HALF, 0, false, 0 },
	/* One page of a folio, two, and the last of one with the first of the next: the cost of a page and of a folio. */
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
	return find_named(shapes, name);
}

static uint64_t window_of(const struct work *work)
{
	return work->shape->window ? work->shape->window : work->size;
}

/* The process's address of what the device sees at IOVA + at. */
static char *address_of(const struct work *work, uint64_t at)
{
	uint64_t window = window_of(work), stride = work->shape->stride ? work->shape->stride : window;

	return work->memory.addr + work->shape->skip + at / window * stride + at % window;
}

/* In whole large pages: what is skipped, what is mapped, and what lies between. */
static uint64_t pages_of_memory(const struct bill *bill)
{
	const struct shape *shape = find_shape(bill->shape);
	uint64_t spread = shape->stride ? shape->stride / shape->window : 1;
	uint64_t size = bill->pages * PAGE * spread + shape->skip;

	return shape->skip || shape->stride ? (size + LARGE - 1) / LARGE * (LARGE / PAGE) : bill->pages;
}

/* Each is a step to what counts in QEMU: lib/marks.h. */
static struct counted map_and_unmap(const struct work *work)
{
	uint64_t window = window_of(work), start;
	struct counted counted = { 0 };

	MARK_NOP(MARK_STEP);
	for (uint64_t at = 0; at < work->size; at += window) {
		MARK_NOP(MARK_BEGIN);
		start = ticks();
		vfio_map(&work->vfio, address_of(work, at), IOVA + at, window);
		counted.map += ticks() - start;
		MARK_NOP(MARK_END);
	}
	MARK_NOP(MARK_STEP);
	for (uint64_t at = 0; at < work->size; at += window) {
		MARK_NOP(MARK_BEGIN);
		start = ticks();
		vfio_unmap(&work->vfio, IOVA + at, window);
		counted.unmap += ticks() - start;
		MARK_NOP(MARK_END);
	}
	return counted;
}

/* Marks `tries` pages and counts those where the device reads something else. */
static uint64_t misplaced(const struct work *work, uint64_t tries)
{
	struct memory scratch = memory_get("4K", 1);
	uint64_t pages = work->size / PAGE, step = pages / tries ? pages / tries : 1, wrong = 0;
	struct edu edu = edu_open(&work->vfio);

	vfio_map(&work->vfio, scratch.addr, OTHER_IOVA, PAGE);
	for (uint64_t page = step - 1; page < pages; page += step) {
		volatile uint64_t *mark = (void *)address_of(work, page * PAGE);

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

/* Pages locked while mapped, pages locked after, pages that the device was asked for, and those that it did not find. */
struct checked {
	uint64_t locked, left, tried, wrong;
};

static struct checked check(const struct work *work)
{
	enum interface interface = work->vfio.interface;
	uint64_t window = window_of(work), before = accounted_pages(interface);
	struct checked checked;

	for (uint64_t at = 0; at < work->size; at += window)
		vfio_map(&work->vfio, address_of(work, at), IOVA + at, window);
	checked.locked = accounted_pages(interface) - before;
	/* Of other devices it is not known how to ask them. */
	checked.tried = edu_is(vfio_device()) ? TRIES : 0;
	checked.wrong = checked.tried ? misplaced(work, checked.tried) : 0;
	for (uint64_t at = 0; at < work->size; at += window)
		vfio_unmap(&work->vfio, IOVA + at, window);
	checked.left = accounted_pages(interface) - before;
	return checked;
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
		       interface_name(bill->interface), bill->shape, why);
	return why;
}

static void report_list(const char *name, const uint64_t *values, uint32_t count)
{
	report_more(",\"%s\":[", name);
	for (uint32_t i = 0; i < count; i++)
		report_more("%s%lu", i ? "," : "", values[i]);
	report_more("]");
}

void step_bill(const struct bill *bill)
{
	uint64_t maps[MAX_REPEATS], unmaps[MAX_REPEATS];
	struct checked checked;
	struct layout layout;
	struct counted first;
	struct work work;

	if (bill->repeats > MAX_REPEATS)
		fail_with("repeats of a bill", EINVAL);
	if (is_unavailable(bill))
		return;
	work = begin(bill);
	/*
	 * The first pays for the IOMMU's page tables and for marking the folios dirty, the second for making them active
	 * (FOLL_TOUCH).
	 */
	first = map_and_unmap(&work);
	map_and_unmap(&work);
	for (uint32_t i = 0; i < bill->repeats; i++) {
		struct counted once = map_and_unmap(&work);

		maps[i] = once.map;
		unmaps[i] = once.unmap;
	}
	layout = memory_layout(&work.memory);
	checked = check(&work);
	report_begin("{\"kind\":\"pin\",\"interface\":\"%s\",\"shape\":\"%s\",\"pages\":%lu,\"ioctls\":%lu",
		     interface_name(bill->interface), bill->shape, bill->pages, work.size / window_of(&work));
	report_more(",\"first_map\":%lu,\"first_unmap\":%lu", first.map, first.unmap);
	report_list("map", maps, bill->repeats);
	report_list("unmap", unmaps, bill->repeats);
	report_more(",\"runs\":%lu,\"folios\":%lu,\"largest\":%lu,\"locked\":%lu,\"left\":%lu,\"tried\":%lu,\"misplaced\":%lu}",
		    layout.runs, layout.folios, layout.largest, checked.locked, checked.left, checked.tried, checked.wrong);
	report_end();
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
	report("{\"kind\":\"pin-traced\",\"interface\":\"%s\",\"shape\":\"%s\",\"pages\":%lu,\"map\":%lu,\"unmap\":%lu}",
	       interface_name(bill->interface), bill->shape, bill->pages, counted.map, counted.unmap);
	end(&work);
}

uint64_t accounted_pages(enum interface interface)
{
	const char *format = interface == TYPE1 ? "VmLck: %lu kB" : "VmPin: %lu kB";
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	if (!status)
		fail("open /proc/self/status");
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, format, &kib) == 1)
			break;
	fclose(status);
	return kib / 4;
}

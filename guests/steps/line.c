// SPDX-License-Identifier: MIT OR Apache-2.0
/* The lines of an order that measure something, and Xen's trace around them. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/xentrace.h"
#include "privcmd.h"
#include "steps.h"

static struct {
	uint32_t pages;
	uint32_t number;
	bool tracing;
} state = { .pages = 1 };

static long sysctl(struct xen_sysctl *call)
{
	privcmd_lock(call, sizeof(*call));
	return privcmd_hypercall(HYPERVISOR_SYSCTL, (uint64_t)call, 0);
}

static void *map_of_xen(const uint64_t *frames, unsigned int count, bool writable)
{
	return privcmd_map(DOMID_XEN, frames, count, writable ? PROT_READ | PROT_WRITE : PROT_READ);
}

static void wait_a_moment(void)
{
	usleep(200000);
}

const struct xentrace_access xentrace_by_privcmd = { sysctl, map_of_xen, wait_a_moment };

static void step_trace_begin(uint32_t pages)
{
	privcmd_open();
	xentrace_begin(&xentrace_by_privcmd, pages);
	state.tracing = true;
}

static void step_trace_end(void)
{
	state.tracing = false;
	xentrace_end();
}

static uint32_t mark(void)
{
	return state.tracing ? state.number : NO_MARK;
}

void mark_begin(uint32_t id)
{
	if (id != NO_MARK)
		privcmd_mark(MARK_BEGIN, id);
	MARK_NOP(MARK_BEGIN);
}

void mark_end(uint32_t id)
{
	MARK_NOP(MARK_END);
	if (id != NO_MARK)
		privcmd_mark(MARK_END, id);
}

bool run_measuring_step(const char *line)
{
	char word[64], other[64];
	unsigned int x, y;
	unsigned long long n;

	if (sscanf(line, "pages %u", &x) == 1)
		state.pages = x;
	else if (sscanf(line, "clear %63s %u", word, &x) == 2)
		step_clear(word, x, state.pages, mark());
	else if (sscanf(line, "race %63s %u %llu %u", word, &x, &n, &y) == 4)
		step_race(word, x, n, y);
	else if (sscanf(line, "user %63s", word) == 1)
		step_user(word, state.pages, mark());
	else if (sscanf(line, "domain %u", &x) == 1)
		step_domain(x, state.pages);
	else if (!strcmp(line, "foreign-prepare"))
		step_foreign_prepare(state.pages);
	else if (!strcmp(line, "translated-domain"))
		step_translated_domain(state.pages);
	else if (!strcmp(line, "foreign-release"))
		step_foreign_release();
	else if (sscanf(line, "foreign %63s %u", word, &x) == 2)
		step_foreign(word, x, state.pages, mark());
	else if (sscanf(line, "set %63s", word) == 1)
		step_set(word, state.pages, mark());
	else if (sscanf(line, "repeat %63s %63s", word, other) == 2)
		step_repeat(word, other, state.pages, mark());
	else if (sscanf(line, "call %63s", word) == 1)
		step_call(word, state.pages, mark());
	else if (sscanf(line, "trace-begin %u", &x) == 1)
		step_trace_begin(x);
	else if (!strcmp(line, "release"))
		step_release();
	else if (!strcmp(line, "trace-end"))
		step_trace_end();
	else
		return false;
	return true;
}

void line_begin(void)
{
	state.number++;
	MARK_NOP(MARK_STEP);
}

void line_end(void)
{
	if (state.tracing)
		xentrace_drain();
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A 32-bit PAE PV dom0 that runs an order and nothing else. The order is the second module, a step a line:
 *
 *   pages N                    pages, or repetitions, of the steps that follow
 *   set MECHANISM
 *   repeat OPERATION MECHANISM
 *   clear MECHANISM BATCH
 *   trace-begin BUFFER_PAGES   capture Xen's trace; from here on steps are marked with their number
 *   trace-end                  report the capture
 *
 * Events stay masked and no timer runs, so that nothing but Xen's own work comes between two instructions.
 */
#include "freestanding/console.h"
#include "memory.h"
#include "quiet.h"
#include "steps.h"
#include "freestanding/string.h"
#include "trace.h"

#define MOST_WORDS 3u
#define LINE_SIZE 128u

static struct {
	uint32_t pages;
	uint32_t step;
	int tracing;
} state = { .pages = 1 };

void pv32_main(const struct start_info *info);

static uint32_t number(const char *text)
{
	uint32_t value = 0;

	if (!*text)
		fail_with("a number is missing", EINVAL);
	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint32_t)(*text - '0');
	if (*text)
		fail_with("not a number", EINVAL);
	return value;
}

static void run_step(char *const words[MOST_WORDS])
{
	struct step step = { state.pages, state.tracing ? state.step : NO_MARK };

	if (equal(words[0], "pages"))
		state.pages = number(words[1]);
	else if (equal(words[0], "set"))
		step_set("set", words[1], step);
	else if (equal(words[0], "repeat"))
		step_set(words[1], words[2], step);
	else if (equal(words[0], "clear"))
		step_clear(words[1], number(words[2]), step);
	else if (equal(words[0], "trace-begin")) {
		trace_begin(number(words[1]));
		state.tracing = 1;
	} else if (equal(words[0], "trace-end")) {
		state.tracing = 0;
		xentrace_end();
	} else
		fail_with(words[0], EINVAL);
}

/* Splits a line in place; missing words are empty. */
static void run_line(char *line)
{
	char *words[MOST_WORDS] = { line, "", "" };
	unsigned int count = 1;

	for (; *line; line++) {
		if (*line != ' ')
			continue;
		*line = 0;
		if (count < MOST_WORDS)
			words[count++] = line + 1;
	}
	state.step++;
	quiet_wait();
	run_step(words);
	if (state.tracing)
		xentrace_drain();
}

static void run_order(const char *order, uint32_t size)
{
	char line[LINE_SIZE];
	unsigned int used = 0;

	for (uint32_t i = 0; i < size; i++) {
		if (order[i] != '\n' && used < LINE_SIZE - 1) {
			line[used++] = order[i];
			continue;
		}
		line[used] = 0;
		if (used)
			run_line(line);
		used = 0;
	}
}

static void hello(void)
{
	static char extra[16];
	uint32_t version = (uint32_t)xen_version(XENVER_VERSION, NULL);

	xen_version(XENVER_EXTRAVERSION, extra);
	report("{\"kind\":\"hello\",\"release\":\"pv32-probe\",\"version\":\"32-bit PAE\",\"xen\":\"%u.%u%s\",\"cpus\":1}",
	       version >> 16, version & 0xffff, extra);
}

void pv32_main(const struct start_info *info)
{
	memory_init(info);
	quiet_init(info);
	hypercall4(HYPERVISOR_VCPU_OP, VCPUOP_STOP_PERIODIC_TIMER, 0, 0, 0);
	hello();
	run_order((const char *)info->mod_start, info->mod_len);
	report("{\"kind\":\"done\"}");
	end_guest();
}

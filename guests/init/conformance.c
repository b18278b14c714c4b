// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The step "conformance": reads cases from a file of numbers, passes each to the probe, reports the answers.
 *
 *   case INDEX PAGES
 *   step OPERATION DOMAIN FIRST REQUESTS COUNT DONE FLAGS MASK MEANING
 *   request BITS BITS FRAME FRAME COMMAND MEANING IS_ADDRESS
 *   end
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../steps/probe.h"
#include "conformance.h"

/* The case that is being read. */
static struct xen_probe_case c;
static unsigned int case_index;

static void read_case(const char *line)
{
	memset(&c, 0, sizeof(c));
	if (sscanf(line, "case %u %u", &case_index, &c.pages) != 2)
		fail_with(line, EINVAL);
}

static void read_step(const char *line)
{
	struct xen_probe_step *s = &c.step[c.steps];

	if (c.steps == XEN_PROBE_STEPS ||
	    sscanf(line, "step %u %u %u %u %u %u %llu %llu %u", &s->operation, &s->domain, &s->first, &s->requests,
		   &s->count, &s->done, &s->flags, &s->mask, &s->meaning) != 9)
		fail_with(line, EINVAL);
	c.steps++;
}

static void read_request(const char *line)
{
	struct xen_probe_request *r = &c.request[c.requests];

	if (c.requests == XEN_PROBE_REQUESTS ||
	    sscanf(line, "request %llu %llu %u %u %u %u %u", &r->bits[0], &r->bits[1], &r->frame[0], &r->frame[1],
		   &r->command, &r->meaning, &r->is_address) != 7)
		fail_with(line, EINVAL);
	c.requests++;
}

static void report_case(void)
{
	report_begin("{\"kind\":\"case\",\"index\":%u,\"unclean\":%u,\"frames\":[", case_index, c.unclean);
	for (unsigned int i = 0; i < XEN_PROBE_FRAMES; i++)
		report_more("%s%llu", i ? "," : "", c.frame[i]);
	report_more("],\"answers\":[");
	for (unsigned int i = 0; i < c.steps; i++)
		report_more("%s[%lld,%u,%llu]", i ? "," : "", c.step[i].code, c.step[i].done, c.step[i].value);
	report_more("]}");
	report_end();
}

static void run_line(const char *line)
{
	if (!strncmp(line, "case ", 5)) {
		read_case(line);
	} else if (!strncmp(line, "step ", 5)) {
		read_step(line);
	} else if (!strncmp(line, "request ", 8)) {
		read_request(line);
	} else if (!strcmp(line, "end")) {
		ask_probe(XEN_PROBE_IOC_CASE, &c);
		report_case();
	} else {
		fail_with(line, EINVAL);
	}
}

void step_conformance(const char *path)
{
	for_each_line(path, run_line);
}

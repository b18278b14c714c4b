// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The step "conformance": reads cases from a file of numbers, hands each to the probe, reports the answers.
 *
 *   case INDEX PAGES
 *   step OPERATION DOMAIN FIRST REQUESTS COUNT DONE FLAGS MASK MEANING
 *   request BITS BITS FRAME FRAME COMMAND MEANING IS_ADDRESS
 *   end
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../xen-probe/xen_probe_abi.h"
#include "report.h"
#include "steps.h"

#define TEXT_SIZE 3584

static void malformed(const char *line)
{
	errno = EINVAL;
	fail(line);
}

static void read_step(struct xen_probe_case *c, const char *line)
{
	struct xen_probe_step *s = &c->step[c->steps];

	if (c->steps == XEN_PROBE_STEPS ||
	    sscanf(line, "step %u %u %u %u %u %u %llu %llu %u", &s->operation, &s->domain, &s->first, &s->requests,
		   &s->count, &s->done, &s->flags, &s->mask, &s->meaning) != 9)
		malformed(line);
	c->steps++;
}

static void read_request(struct xen_probe_case *c, const char *line)
{
	struct xen_probe_request *r = &c->request[c->requests];

	if (c->requests == XEN_PROBE_REQUESTS ||
	    sscanf(line, "request %llu %llu %u %u %u %u %u", &r->bits[0], &r->bits[1], &r->frame[0], &r->frame[1],
		   &r->command, &r->meaning, &r->is_address) != 7)
		malformed(line);
	c->requests++;
}

static void report_case(unsigned int index, const struct xen_probe_case *c)
{
	char frames[TEXT_SIZE / 4], answers[TEXT_SIZE];
	int used = 0;

	for (unsigned int i = 0; i < XEN_PROBE_FRAMES; i++)
		used += snprintf(frames + used, sizeof(frames) - used, "%s%llu", i ? "," : "", c->frame[i]);
	used = 0;
	answers[0] = 0;
	for (unsigned int i = 0; i < c->steps; i++)
		used += snprintf(answers + used, sizeof(answers) - used, "%s[%lld,%u,%llu]", i ? "," : "",
				 c->step[i].code, c->step[i].done, c->step[i].value);
	report("{\"kind\":\"case\",\"index\":%u,\"unclean\":%u,\"frames\":[%s],\"answers\":[%s]}", index, c->unclean,
	       frames, answers);
}

void step_conformance(const char *path)
{
	static struct xen_probe_case c;
	unsigned int index = 0;
	char line[256];
	FILE *file = fopen(path, "re");
	int probe = open(XEN_PROBE_DEVICE, O_RDWR | O_CLOEXEC);

	if (!file)
		fail(path);
	if (probe < 0)
		fail("open " XEN_PROBE_DEVICE);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "case ", 5)) {
			memset(&c, 0, sizeof(c));
			if (sscanf(line, "case %u %u", &index, &c.pages) != 2)
				malformed(line);
		} else if (!strncmp(line, "step ", 5)) {
			read_step(&c, line);
		} else if (!strncmp(line, "request ", 8)) {
			read_request(&c, line);
		} else if (!strcmp(line, "end")) {
			if (ioctl(probe, XEN_PROBE_IOC_CASE, &c) < 0)
				fail("XEN_PROBE_IOC_CASE");
			report_case(index, &c);
		} else {
			malformed(line);
		}
	}
	fclose(file);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Bills the pin route: maps memory for the DMA of one device, a step a line of the order that is given.
 *
 *   device BDF                       binds the PCI device to vfio-pci
 *   bill INTERFACE SHAPE PAGES REPEATS
 *   trace INTERFACE SHAPE PAGES
 *   conformance FILE
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../init/report.h"
#include "graph.h"
#include "steps.h"
#include "vfio.h"

static enum interface interface_of(const char *name)
{
	if (!strcmp(name, "type1"))
		return TYPE1;
	if (!strcmp(name, "iommufd"))
		return IOMMUFD;
	errno = EINVAL;
	fail(name);
}

static void run_step(const char *line)
{
	char interface[16], shape[32], path[256];
	unsigned long long pages;
	unsigned int repeats;

	if (sscanf(line, "device %255s", path) == 1)
		vfio_bind(path);
	else if (sscanf(line, "bill %15s %31s %llu %u", interface, shape, &pages, &repeats) == 4)
		step_bill(&(struct bill){ interface_of(interface), shape, pages, repeats });
	else if (sscanf(line, "trace %15s %31s %llu", interface, shape, &pages) == 3)
		step_trace(&(struct bill){ interface_of(interface), shape, pages, 1 });
	else if (sscanf(line, "conformance %255s", path) == 1)
		step_conformance(path);
	else {
		errno = EINVAL;
		fail(line);
	}
}

int main(int argc, char **argv)
{
	char line[512];
	FILE *order = argc == 2 ? fopen(argv[1], "re") : NULL;

	if (!order)
		fail("open the order of pin-probe");
	while (fgets(line, sizeof(line), order)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			run_step(line);
	}
	fclose(order);
	graph_hand_over();
	return 0;
}

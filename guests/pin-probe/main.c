// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures the pin route: maps memory for the DMA of one device. Runs the order in a file, a step a line:
 *
 *   device BDF                          bind the PCI device to vfio-pci, and take it
 *   bound BDF                           take the PCI device, which is bound to vfio-pci
 *   bill INTERFACE SHAPE PAGES REPEATS
 *   trace INTERFACE SHAPE PAGES
 *   conformance FILE
 *   check NAME PAGES
 */
#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "graph.h"
#include "steps.h"
#include "vfio.h"

static void run_step(const char *line)
{
	char interface[16], shape[32], path[256];
	unsigned long pages;
	unsigned int repeats;

	if (sscanf(line, "device %255s", path) == 1)
		vfio_bind(path);
	else if (sscanf(line, "bound %255s", path) == 1)
		vfio_take(path);
	else if (sscanf(line, "bill %15s %31s %lu %u", interface, shape, &pages, &repeats) == 4)
		step_bill(&(struct bill){ interface_find(interface), shape, pages, repeats });
	else if (sscanf(line, "trace %15s %31s %lu", interface, shape, &pages) == 3)
		step_trace(&(struct bill){ interface_find(interface), shape, pages, 1 });
	else if (sscanf(line, "conformance %255s", path) == 1)
		step_conformance(path);
	else if (sscanf(line, "check %255s %lu", path, &pages) == 2)
		step_check(path, pages);
	else
		fail_with(line, EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of pin-probe", EINVAL);
	for_each_line(argv[1], run_step);
	graph_report();
	return 0;
}

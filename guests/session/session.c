// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * session ORDER: runs the order in a file, whose path is absolute, in a PV guest that is not ours. pagetoll carries this
 * program. Nothing here mounts, loads a module or ends more than this process. A step that fails ends it after an error
 * report.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/tick/tick.h"
#include "../steps/steps.h"
#include "xen_steps.h"

/* Marks in Xen's trace count what the CPU records that a thread stays on. */
static void stay_on_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("stay on a CPU");
}

/* Where bulk data is left: beside the order. */
static void enter_folder_of(const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	if (chdir(dirname(folder)) < 0)
		fail(path);
}

/* A host has work of its own, and does not rest. */
void await_start(void)
{
	await_tick();
}

static void run_line(const char *line)
{
	line_begin();
	if (!run_measuring_step(line) && !run_xen_step(line))
		fail_with(line, EINVAL);
	line_end();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("session ORDER", EINVAL);
	enter_folder_of(argv[1]);
	report_hello();
	xen_steps_begin();
	stay_on_this_cpu();
	for_each_line(argv[1], run_line);
	report("{\"kind\":\"done\"}");
	return 0;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs an order in a PV guest that is not ours: pagetoll links this in, and starts itself again for it. Nothing here
 * mounts, loads a module or ends more than this process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../steps/steps.h"
#include "bulk.h"
#include "session.h"

/* How it ended, the last report says. */
void end_guest(void)
{
	_exit(0);
}

/* A step may take minutes in the kernel: nobody waits for it any more. */
static void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Marks in Xen's trace count what the CPU records that a thread stays on. */
static void stay_on_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("stay on a CPU");
}

static void run_line(const char *line)
{
	line_begin();
	if (!run_measuring_step(line))
		fail_with(line, EINVAL);
	line_end();
}

int pagetoll_session(const char *order, const char *bulk)
{
	die_with_parent();
	bulk_open(bulk);
	report_hello();
	stay_on_this_cpu();
	for_each_line(order, run_line);
	report("{\"kind\":\"done\"}");
	return 0;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* A program that pagetoll runs on its own host ends alone, and with pagetoll. */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../report.h"

/* How it ended, the last report says. */
void end_guest(void)
{
	_exit(0);
}

/* A step may run for minutes; it must not outlive the run that it belongs to. */
__attribute__((constructor)) static void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

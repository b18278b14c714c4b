/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps of a session that ask Xen for more than a guest of the lab does. Each reports its results and ends the process
 * when it fails.
 */
#ifndef PAGETOLL_XEN_STEPS_H
#define PAGETOLL_XEN_STEPS_H

#include <stdbool.h>

/* Notes the CPUs that this process may run on, before it stays on one. */
void xen_steps_begin(void);

/*
 * Runs a line of an order; false where it is none of these:
 *
 *   trace-state                            report whether Xen's trace is running, and its events
 *   trace-stop MASK                        end one that was begun by another session, which has died
 *   parameter NAME                         report a parameter of Xen that can be set while it runs, 0 or 1
 *   parameter-set NAME VALUE
 *   lock-reset                             begin the profiles of Xen's locks anew
 *   lock-profile NAME                      report the profile of a global lock
 *   contend COUNT                          all CPUs flush each other's TLBs, COUNT times together
 */
bool run_xen_step(const char *line);

#endif

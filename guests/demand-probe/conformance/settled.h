/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When everything that a step has begun is over: every actor is done, or sleeps in a fault of a userfaultfd.
 *
 * No time decides it. /proc/self/task/TID/wchan names handle_userfault() only while the thread has left its CPU there:
 * get_wchan() (kernel/sched/core.c) says nothing of a thread that runs, is about to, or was just woken. The thread stays
 * there until a step wakes it, and what wakes it takes it out of its queue before the step's call returns
 * (userfaultfd_wake_function() of fs/userfaultfd.c). So an actor that was seen asleep, or done, remains so, and actors
 * may be looked at one after the other. The lengths of the queues, which are an answer of their own, have to agree.
 */
#ifndef PAGETOLL_CONFORMANCE_SETTLED_H
#define PAGETOLL_CONFORMANCE_SETTLED_H

#include "userfaultfd.h"

/* Returns when it is over, with who waits; ends the guest when an actor neither ends nor sleeps. */
struct waiting settle(void);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes and threads that a guest cannot do without: a failure ends it. */
#ifndef PAGETOLL_PROCESS_H
#define PAGETOLL_PROCESS_H

#include <pthread.h>
#include <sys/types.h>

pid_t fork_or_fail(void);

/* Waits for a child and returns its status. */
int wait_for(pid_t child);

pthread_t start_thread(void *(*run)(void *argument), void *argument);

#endif

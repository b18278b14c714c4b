// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "settled.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/file.h"
#include "actor.h"

/* Only what hangs takes so long: nothing in a case takes more than milliseconds. */
#define LIMIT_SECONDS 20
#define PAUSE_MICROSECONDS 100

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static bool sleeps_in_fault(const struct actor *actor)
{
	char path[64], where[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", actor->tid);
	read_line(path, where, sizeof(where));
	return !strcmp(where, "handle_userfault");
}

/* Returns whether it sleeps. */
static bool settle_actor(const struct actor *actor)
{
	time_t began = now();

	while (actor->doing == DOING_JOB) {
		if (sleeps_in_fault(actor))
			return true;
		if (now() - began > LIMIT_SECONDS)
			fail_with("an actor that neither ends nor sleeps in a fault", ETIMEDOUT);
		usleep(PAUSE_MICROSECONDS);
	}
	return false;
}

struct waiting settle(void)
{
	struct waiting waiting;
	unsigned long asleep = 0;

	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < ACTORS; i++)
			asleep += settle_actor(&actors[kind][i]);
	waiting = uffd_waiting();
	if (waiting.total != asleep)
		fail_with("as many faults in queues as actors that sleep", EPROTO);
	return waiting;
}

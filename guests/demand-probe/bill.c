// SPDX-License-Identifier: GPL-2.0-only
/* What a guest pays to touch missing pages, and what the parts of that cost alone. */
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/process.h"
#include "exercise.h"
#include "steps.h"

void step_bill(const char *name, uint32_t batch, uint32_t pages, uint32_t repeats)
{
	const struct mechanism *mechanism = mechanism_find(name);

	if (mechanism_is_unavailable(mechanism))
		return;
	exercise(mechanism, batch, pages);
	while (repeats--) {
		struct counts counts = exercise(mechanism, batch, pages);

		report("{\"kind\":\"demand\",\"mechanism\":\"%s\",\"batch\":%u,\"pages\":%lu,\"instructions\":%lu,"
		       "\"exits\":%lu,\"entries\":%lu,\"missing\":%lu,\"faults\":%lu,\"copying\":%lu,"
		       "\"prefaulting\":%lu,\"switches\":%lu,\"misnamed\":%lu,\"wrong\":%lu}",
		       name, batch, counts.pages, counts.instructions, counts.exits, counts.entries, counts.missing,
		       counts.faults, counts.copying, counts.prefaulting, counts.switches, counts.misnamed,
		       counts.wrong);
	}
}

/* Instructions of a program that leaves the guest `count` times. */
static uint64_t leave(enum program program, uint32_t count)
{
	struct machine machine = machine_open();
	uint64_t start, taken;
	enum stop stop;

	machine_load(&machine, program, AREA_GPA, count);
	start = ticks();
	do
		stop = machine_run(&machine);
	while (stop == STOP_PORT || stop == STOP_INTERRUPTED);
	taken = ticks() - start;
	machine_close(&machine);
	if (stop != STOP_END)
		fail("leave the guest");
	return taken;
}

/* Instructions of copying `pages` pages, which wakes no thread. */
static uint64_t copy(uint32_t batch, uint64_t pages)
{
	struct pager pager;
	uint64_t start, taken;

	pager_open(&pager, batch, pages);
	start = ticks();
	pager_populate(&pager);
	taken = ticks() - start;
	pager_close(&pager);
	return taken;
}

/* Two threads that wake each other, by an eventfd for each direction. */
struct turns {
	int here, there;
	uint32_t count;
};

enum side { FIRST, SECOND };

static void pass(int from, int to, enum side side)
{
	uint64_t one = 1;

	if (side == SECOND && read(from, &one, sizeof(one)) != sizeof(one))
		fail("read an eventfd");
	if (write(to, &one, sizeof(one)) != sizeof(one))
		fail("write an eventfd");
	if (side == FIRST && read(from, &one, sizeof(one)) != sizeof(one))
		fail("read an eventfd");
}

static void *take_turns(void *argument)
{
	const struct turns *turns = argument;

	for (uint32_t i = 0; i < turns->count; i++)
		pass(turns->here, turns->there, SECOND);
	return NULL;
}

/* Instructions of `count` rounds: two writes, two reads, and twice a thread that sleeps while the other is woken. */
static uint64_t wake_each_other(uint32_t count)
{
	struct turns turns = { eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC), count };
	pthread_t other = start_thread(take_turns, &turns);
	uint64_t start = ticks(), taken;

	for (uint32_t i = 0; i < count; i++)
		pass(turns.there, turns.here, FIRST);
	pthread_join(other, NULL);
	taken = ticks() - start;
	close(turns.here);
	close(turns.there);
	return taken;
}

/* The same system calls by one thread, which reads what it has written. */
static uint64_t wake_none(uint32_t count)
{
	int self = eventfd(0, EFD_CLOEXEC);
	uint64_t start = ticks(), taken;

	for (uint32_t i = 0; i < 2 * count; i++)
		pass(self, self, FIRST);
	taken = ticks() - start;
	close(self);
	return taken;
}

void step_parts(uint32_t batch, uint32_t count)
{
	/* Warm up. */
	leave(PROGRAM_OUT_ANSWERED, 1);
	copy(batch, batch);
	report("{\"kind\":\"demand-parts\",\"batch\":%u,\"count\":%u,\"answered\":%lu,\"out\":%lu,\"copy\":%lu,\"calls\":%lu,"
	       "\"wakes\":%lu}",
	       batch, count, leave(PROGRAM_OUT_ANSWERED, count), leave(PROGRAM_OUT, count), copy(batch, count),
	       wake_none(count), wake_each_other(count));
}

// SPDX-License-Identifier: GPL-2.0-only
/* What it costs a guest to touch pages that have to be brought in, and what the parts of that cost by themselves. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../init/clock.h"
#include "../init/report.h"
#include "kvm_abi.h"
#include "steps.h"
#include "travel.h"

typedef unsigned long long ull;

void step_bill(const char *name, uint64_t pages, uint32_t repeats)
{
	const struct mechanism *mechanism = mechanism_find(name);

	errno = EINVAL;
	if (!mechanism)
		fail(name);
	if (mechanism_is_unavailable(mechanism))
		return;
	travel(mechanism, pages);
	while (repeats--) {
		struct travelled it = travel(mechanism, pages);

		report("{\"kind\":\"demand\",\"mechanism\":\"%s\",\"pages\":%llu,\"instructions\":%llu,\"exits\":%llu,"
		       "\"entries\":%llu,\"missing\":%llu,\"faults\":%llu,\"copying\":%llu,\"switches\":%llu,"
		       "\"misnamed\":%llu,\"wrong\":%llu}",
		       name, (ull)it.pages, (ull)it.instructions, (ull)it.exits, (ull)it.entries, (ull)it.missing,
		       (ull)it.faults, (ull)it.copying, (ull)it.switches, (ull)it.misnamed, (ull)it.wrong);
	}
}

/* Instructions of a program that leaves the guest `count` times. */
static uint64_t leave(enum program program, uint32_t count)
{
	struct machine machine = machine_open();
	uint64_t start;
	enum stop stop;

	machine_load(&machine, program, AREA_GPA, count);
	start = ticks();
	do
		stop = machine_run(&machine);
	while (stop == STOP_PORT || stop == STOP_INTERRUPTED);
	start = ticks() - start;
	machine_close(&machine);
	if (stop != STOP_END)
		fail("leave the guest");
	return start;
}

/* Instructions of `pages` copies that wake nobody. */
static uint64_t copy(uint64_t pages)
{
	struct pager pager;
	uint64_t start;

	pager_open(&pager, pages);
	start = ticks();
	pager_populate(&pager);
	start = ticks() - start;
	pager_close(&pager);
	return start;
}

/* Two threads that wake each other, by one eventfd for each direction. */
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

/* Instructions of `count` rounds, of two writes, two reads, and twice a thread that sleeps while another is woken. */
static uint64_t wake_each_other(uint32_t count)
{
	struct turns turns = { eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC), count };
	pthread_t other;
	uint64_t start;

	errno = pthread_create(&other, NULL, take_turns, &turns);
	if (errno)
		fail("start a thread");
	start = ticks();
	for (uint32_t i = 0; i < count; i++)
		pass(turns.there, turns.here, FIRST);
	pthread_join(other, NULL);
	start = ticks() - start;
	close(turns.here);
	close(turns.there);
	return start;
}

/* The same system calls of one thread, which finds what it has written. */
static uint64_t wake_nobody(uint32_t count)
{
	int self = eventfd(0, EFD_CLOEXEC);
	uint64_t start = ticks();

	for (uint32_t i = 0; i < 2 * count; i++)
		pass(self, self, FIRST);
	start = ticks() - start;
	close(self);
	return start;
}

void step_parts(uint32_t count)
{
	/* Once to warm up. */
	leave(PROGRAM_CPUID, 1);
	copy(1);
	report("{\"kind\":\"demand-parts\",\"count\":%u,\"cpuid\":%llu,\"out\":%llu,\"copy\":%llu,\"calls\":%llu,"
	       "\"wakes\":%llu}",
	       count, (ull)leave(PROGRAM_CPUID, count), (ull)leave(PROGRAM_OUT, count), (ull)copy(count),
	       (ull)wake_nobody(count), (ull)wake_each_other(count));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/guest/pci.h"
#include "../lib/linux/page.h"
#include "../lib/shared_memory.h"

/* QEMU's docs/specs/pvpanic.txt; the lab's QEMU takes a panic for a reason to pause. */
#define PVPANIC_VENDOR 0x1b36u
#define PVPANIC_DEVICE 0x0011u
#define PVPANIC_EVENTS 0
#define PVPANIC_PANICKED 1

#define S_NS 1000000000l
/* Longer than a tick and what is received take: 10 ms, under Xen. */
#define BUSY_NS 40000000l

static void stop_machine(void)
{
	size_t size = PAGE;
	volatile uint8_t *events = pci_map(PVPANIC_VENDOR, PVPANIC_DEVICE, PVPANIC_EVENTS, &size);

	*events = PVPANIC_PANICKED;
	munmap((void *)events, size);
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(path);
	while (size) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0)
			fail(path);
		bytes += done;
		size -= done;
	}
	close(fd);
}

static void unpack(const char *memory, size_t size)
{
	const char *at = memory, *end = memory + size;

	while (at < end && *at != '\n') {
		char name[64], path[80];
		size_t length;
		int head;

		if (sscanf(at, "%63s %zu%n", name, &length, &head) != 2 || length >= (size_t)(end - at - head))
			fail_with("files that the host has put into the shared memory", EINVAL);
		at += head + 1;
		snprintf(path, sizeof(path), "/%s", name);
		write_bytes(path, at, length);
		at += length;
	}
}

/*
 * Between the stop of its CPU and that of its clock, QEMU moves the clock to the next timer, or does not: the two are done
 * by different threads (icount_start_warp_timer() in accel/tcg/icount-common.c, do_vm_stop() in softmmu/cpus.c). So what
 * follows begins at times that were set before: first the CPU is busy, by which Xen's scheduler has used up as much of the
 * domain's credit in both cases, then it sleeps.
 */
static void forget_stop(const struct timespec *before)
{
	struct timespec busy = *before, now, asleep = { .tv_sec = before->tv_sec + 2 };

	busy.tv_nsec += BUSY_NS;
	busy.tv_sec += busy.tv_nsec / S_NS;
	busy.tv_nsec %= S_NS;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec < busy.tv_sec || (now.tv_sec == busy.tv_sec && now.tv_nsec < busy.tv_nsec));
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &asleep, NULL);
}

void receive_files(void)
{
	struct timespec before;

	clock_gettime(CLOCK_MONOTONIC, &before);
	stop_machine();
	shared_receive(unpack);
	/* Of several CPUs nothing repeats. */
	if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
		forget_stop(&before);
}

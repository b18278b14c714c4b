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

/*
 * QEMU's i6300esb, a watchdog (Intel 6300ESB datasheet, 300641; hw/watchdog/wdt_i6300esb.c): it counts down twice, here
 * without an interrupt between, and the lab's QEMU pauses the machine then.
 */
#define WATCHDOG_VENDOR 0x8086u
#define WATCHDOG_DEVICE 0x25abu
#define WATCHDOG_REGISTERS 0
#define CONFIG 0x60
#define NO_INTERRUPT 0x3
#define LOCK 0x68
#define ENABLE 0x2
#define TIMER_1 0x0
#define TIMER_2 0x4
#define RELOAD 0xc
#define UNLOCK_1 0x80
#define UNLOCK_2 0x86
/* Each of 2^15 periods of a 30 ns clock: a quarter of a second, twice. */
#define COUNT 256u

/* When the guest wakes up, after the second in which it began to sleep. */
#define SLEEP_S 2

static void set_timer(volatile uint8_t *registers, unsigned int timer)
{
	volatile uint16_t *reload = (volatile uint16_t *)(registers + RELOAD);

	*reload = UNLOCK_1;
	*reload = UNLOCK_2;
	*(volatile uint32_t *)(registers + timer) = COUNT;
}

static void start_watchdog(void)
{
	size_t size = PAGE;
	uint16_t config = NO_INTERRUPT;
	uint8_t lock = ENABLE;
	volatile uint8_t *registers = pci_map(WATCHDOG_VENDOR, WATCHDOG_DEVICE, WATCHDOG_REGISTERS, &size);

	pci_configure(WATCHDOG_VENDOR, WATCHDOG_DEVICE, CONFIG, &config, sizeof(config));
	set_timer(registers, TIMER_1);
	set_timer(registers, TIMER_2);
	munmap((void *)registers, size);
	pci_configure(WATCHDOG_VENDOR, WATCHDOG_DEVICE, LOCK, &lock, sizeof(lock));
}

/*
 * The machine stops while the guest sleeps. Did its CPU stop itself, QEMU's clock would move to the next timer before it
 * stops, or not: the two are stopped by different threads (icount_start_warp_timer() in accel/tcg/icount-common.c). While
 * no CPU runs, the thread that lets timers expire is also the one that stops the clock.
 */
static void sleep_through_stop(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = (struct timespec){ .tv_sec = until.tv_sec + SLEEP_S };
	start_watchdog();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
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

void receive_files(void)
{
	sleep_through_stop();
	shared_receive(unpack);
}

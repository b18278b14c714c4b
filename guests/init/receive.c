// SPDX-License-Identifier: MIT OR Apache-2.0
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/guest/pci.h"
#include "../lib/shared_memory.h"

/* QEMU's docs/specs/pvpanic.txt; the lab's QEMU takes a panic for a reason to pause. */
#define PVPANIC_VENDOR 0x1b36u
#define PVPANIC_DEVICE 0x0011u
#define PVPANIC_EVENTS 0
#define PVPANIC_PANICKED 1

static void stop_machine(void)
{
	size_t size;
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

void receive_files(void)
{
	stop_machine();
	shared_receive(unpack);
}

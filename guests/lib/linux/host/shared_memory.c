// SPDX-License-Identifier: MIT OR Apache-2.0
/* On its own host, a program that pagetoll runs carries bulk data in a file of its working directory. */
#define _GNU_SOURCE
#include "../../shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../crc32.h"
#include "../fail.h"

#define FILE_NAME "shared-memory"

static size_t used;

static int file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fail("open " FILE_NAME);
	return fd;
}

void shared_append(const void *data, size_t size)
{
	const char *from = data;

	while (size) {
		ssize_t done = write(file(), from, size);

		if (done < 0)
			fail("write " FILE_NAME);
		from += done;
		size -= done;
		used += done;
	}
}

void shared_report(const char *name)
{
	const void *memory = used ? mmap(NULL, used, PROT_READ, MAP_SHARED, file(), 0) : "";

	if (memory == MAP_FAILED)
		fail("map " FILE_NAME);
	report(BLOB_RESULT, name, used, crc32_of(memory, used));
	if (used)
		munmap((void *)memory, used);
}

void shared_receive(void (*take)(const char *memory, size_t size))
{
	(void)take;
	fail_with("receive bulk data", ENOSYS);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* Where there is no shared memory with a host, a file takes its place. */
#include "bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/crc32.h"
#include "../lib/linux/fail.h"
#include "../lib/shared_memory.h"

/* Takes no more room than what is written. */
#define MOST ((size_t)1 << 30)

static struct {
	uint8_t *memory;
	size_t used;
} bulk;

void bulk_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || ftruncate(fd, MOST) < 0)
		fail(path);
	bulk.memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (bulk.memory == MAP_FAILED)
		fail(path);
	close(fd);
}

void shared_append(const void *data, size_t size)
{
	if (MOST - bulk.used < size)
		fail_with("room for bulk data", ENOSPC);
	memcpy(bulk.memory + bulk.used, data, size);
	bulk.used += size;
}

void shared_report(const char *name)
{
	report(BLOB_RESULT, name, bulk.used, crc32_of(bulk.memory, bulk.used));
}

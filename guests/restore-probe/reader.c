// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "reader.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/process.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#endif
#ifndef UFFDIO_CONTINUE
#define UFFDIO_REGISTER_MODE_MINOR ((uint64_t)1 << 2)
#define UFFDIO_CONTINUE_MODE_DONTWAKE ((uint64_t)1 << 0)
#define UFFDIO_CONTINUE _IOWR(UFFDIO, 0x07, struct uffdio_continue)
struct uffdio_continue {
	struct uffdio_range range;
	uint64_t mode;
	int64_t mapped;
};
#endif

/* Pages of the buffer: those of a page of 2 MiB. */
#define MOST 512

enum wake { WAKE, DONT_WAKE };

static int open_userfaultfd(uint64_t features, struct uffdio_api *api)
{
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);

	*api = (struct uffdio_api){ .api = UFFD_API, .features = features };
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, api) < 0)
		fail("open a userfaultfd");
	return uffd;
}

const char *reader_lacks_minor(void)
{
	struct uffdio_api api;

	close(open_userfaultfd(0, &api));
	return api.features & UFFD_FEATURE_MINOR_SHMEM ? NULL : "UFFD_FEATURE_MINOR_SHMEM";
}

void reader_open(struct reader *reader, const struct image *image, uint64_t batch)
{
	*reader = (struct reader){ .image = image, .batch = batch, .uffd = -1 };
	reader->is_present = calloc(image->pages, sizeof(reader->is_present[0]));
	reader->buffer = mmap(NULL, MOST * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (reader->buffer == MAP_FAILED || !reader->is_present)
		fail("make the buffer of a reader");
}

void reader_close(struct reader *reader)
{
	if (reader->is_reading) {
		pthread_cancel(reader->thread);
		pthread_join(reader->thread, NULL);
	}
	if (reader->uffd >= 0)
		close(reader->uffd);
	munmap(reader->buffer, MOST * PAGE);
	free(reader->is_present);
}

void reader_register(struct reader *reader, char *at, char *second, enum delivery delivery)
{
	struct uffdio_register range = {
		.range = { (uintptr_t)at, reader->image->pages * PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING | (second ? UFFDIO_REGISTER_MODE_MINOR : 0),
	};
	struct uffdio_api api;

	reader->at = at;
	reader->second = second;
	reader->uffd = open_userfaultfd(delivery == ERROR ? UFFD_FEATURE_SIGBUS : 0, &api);
	if (ioctl(reader->uffd, UFFDIO_REGISTER, &range) < 0)
		fail("UFFDIO_REGISTER");
}

static void fill_page_cache(struct reader *reader, uint64_t page, uint64_t pages)
{
	char *to = reader->second + page * PAGE;

	if (madvise(to, pages * PAGE, MADV_POPULATE_WRITE) < 0)
		fail("madvise(MADV_POPULATE_WRITE)");
	image_read(reader->image, page, pages, to);
}

static void map_page_cache(struct reader *reader, uint64_t page, uint64_t pages, enum wake wake)
{
	struct uffdio_continue resume = {
		.range = { (uintptr_t)reader->at + page * PAGE, pages * PAGE },
		.mode = wake == WAKE ? 0 : UFFDIO_CONTINUE_MODE_DONTWAKE,
	};

	if (ioctl(reader->uffd, UFFDIO_CONTINUE, &resume) < 0)
		fail("UFFDIO_CONTINUE");
}

static void copy(struct reader *reader, uint64_t page, uint64_t pages, enum wake wake)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)reader->at + page * PAGE, .src = (uintptr_t)reader->buffer, .len = pages * PAGE,
		.mode = wake == WAKE ? 0 : UFFDIO_COPY_MODE_DONTWAKE,
	};

	if (ioctl(reader->uffd, UFFDIO_COPY, &copy) < 0)
		fail("UFFDIO_COPY");
}

/* At most MOST pages, which are all missing. */
static void install(struct reader *reader, uint64_t page, uint64_t pages, enum wake wake)
{
	uint64_t start = ticks(), read;

	if (reader->second)
		fill_page_cache(reader, page, pages);
	else
		image_read(reader->image, page, pages, reader->buffer);
	read = ticks();
	for (uint64_t i = page; i < page + pages; i++)
		reader->is_present[i] = true;
	reader->work.calls++;
	reader->work.reading += read - start;
	if (reader->second)
		map_page_cache(reader, page, pages, wake);
	else
		copy(reader, page, pages, wake);
	/* A thread that is woken may run before this one goes on. */
	if (wake == DONT_WAKE)
		reader->work.installing += ticks() - read;
}

/* Populates the missing pages from one on, of those before `end`. */
static void populate_range(struct reader *reader, uint64_t page, uint64_t end, enum wake wake)
{
	while (page < end) {
		uint64_t first = page;

		while (page < end && page - first < MOST && !reader->is_present[page])
			page++;
		if (page > first)
			install(reader, first, page - first, wake);
		while (page < end && reader->is_present[page])
			page++;
	}
}

static void populate_batch(struct reader *reader, uint64_t page, enum wake wake)
{
	uint64_t first = page & ~(reader->batch - 1), end = first + reader->batch;

	reader->work.faults++;
	populate_range(reader, first, end < reader->image->pages ? end : reader->image->pages, wake);
}

static void *read_faults(void *argument)
{
	struct reader *reader = argument;
	struct uffd_msg message;

	for (;;) {
		if (read(reader->uffd, &message, sizeof(message)) != sizeof(message))
			fail("read the userfaultfd");
		populate_batch(reader, (message.arg.pagefault.address - (uintptr_t)reader->at) / PAGE, WAKE);
	}
}

void reader_start(struct reader *reader)
{
	reader->thread = start_thread(read_faults, reader);
	reader->is_reading = true;
}

void reader_populate(struct reader *reader, uint64_t page)
{
	populate_batch(reader, page, DONT_WAKE);
}

void reader_replay(struct reader *reader, const bool *is_recorded)
{
	uint64_t pages = reader->image->pages;

	for (uint64_t page = 0; page < pages;) {
		uint64_t first = page;

		while (page < pages && is_recorded[page])
			page++;
		populate_range(reader, first, page, DONT_WAKE);
		while (page < pages && !is_recorded[page])
			page++;
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One thread writes each page of a tmpfs file once while another takes the entries away, a few dozen pages at a time,
 * both starting on them at the same moment. Whatever was written through an entry is known by its dirty bit alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"
#include "report.h"

#define CHUNK_PAGES 64
#define CHUNK (CHUNK_PAGES * PAGE)
/* Pages of the file; the check goes round until as many were written as was asked. */
#define FILE_PAGES 8192

struct race {
	int fd;
	volatile char *addr;
	void (*take_away)(void *chunk);
	uint64_t round;
	/* Chunks that both sides have come to: spinning, because sleeping takes longer than a chunk. */
	atomic_uint writer_at, taker_at;
};

static void zap(void *chunk)
{
	if (madvise(chunk, CHUNK, MADV_DONTNEED) < 0)
		fail("madvise DONTNEED");
}

/* Leaves the old place mapped, so that the writer can go on. */
static void move_away(void *chunk)
{
	void *moved = mremap(chunk, CHUNK, CHUNK, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	if (moved == MAP_FAILED)
		fail("mremap DONTUNMAP");
	munmap(moved, CHUNK);
}

static void meet(atomic_uint *own, atomic_uint *other)
{
	unsigned int here = atomic_fetch_add(own, 1) + 1;

	while (atomic_load(other) < here)
		__builtin_ia32_pause();
}

static void pause_a_little(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	for (volatile uint32_t left = *random >> 20; left; left--)
		;
}

static void *writer(void *argument)
{
	struct race *race = argument;
	uint32_t random = race->round;

	for (size_t at = 0; at < FILE_PAGES * PAGE; at += CHUNK) {
		meet(&race->writer_at, &race->taker_at);
		pause_a_little(&random);
		for (size_t page = 0; page < CHUNK_PAGES; page++)
			*(volatile uint64_t *)(race->addr + at + page * PAGE) = race->round;
	}
	return NULL;
}

static void run_round(struct race *race)
{
	uint32_t random = ~race->round;
	pthread_t thread;

	atomic_store(&race->writer_at, 0);
	atomic_store(&race->taker_at, 0);
	if (pthread_create(&thread, NULL, writer, race))
		fail("start a writer");
	for (size_t at = 0; at < FILE_PAGES * PAGE; at += CHUNK) {
		meet(&race->taker_at, &race->writer_at);
		pause_a_little(&random);
		race->take_away((void *)(race->addr + at));
	}
	pthread_join(thread, NULL);
}

/* Fresh pages, clean and mapped. */
static void clean(struct race *race)
{
	size_t size = FILE_PAGES * PAGE;

	if (fallocate(race->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) < 0)
		fail("punch a hole");
	for (size_t at = 0; at < size; at += PAGE)
		(void)race->addr[at];
}

static uint64_t count_lost(struct race *race)
{
	uint64_t found, lost = 0;

	madvise((void *)race->addr, FILE_PAGES * PAGE, MADV_DONTNEED);
	drop_caches();
	for (size_t at = 0; at < FILE_PAGES * PAGE; at += PAGE)
		if (pread(race->fd, &found, sizeof(found), at) != sizeof(found) || found != race->round)
			lost++;
	return lost;
}

static struct finding run_race(void (*take_away)(void *), uint32_t pages)
{
	struct race race = { .fd = tmpfs_file(FILE_PAGES * PAGE), .take_away = take_away };
	struct finding finding = { 0 };

	race.addr = map_or_fail(race.fd, FILE_PAGES * PAGE, MAP_SHARED);
	while (finding.tried < pages) {
		race.round++;
		clean(&race);
		run_round(&race);
		finding.tried += FILE_PAGES;
		finding.failed += count_lost(&race);
	}
	munmap((void *)race.addr, FILE_PAGES * PAGE);
	close(race.fd);
	return finding;
}

struct finding check_dirty_race_zap(uint32_t pages)
{
	return run_race(zap, pages);
}

struct finding check_dirty_race_mremap(uint32_t pages)
{
	return run_race(move_away, pages);
}

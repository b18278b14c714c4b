// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One thread writes each page once while another takes the entries away or write-protects them. Whatever was written
 * through an entry is known by its dirty bit alone.
 *
 * The kernel goes through entries upwards, and most ways hold off page faults meanwhile. A writer that went upwards too
 * would be far ahead of the kernel, or fault behind it and wait until it is done. So the writer goes downwards, from a
 * random moment on, and the two meet at one entry.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checks.h"
#include "clock.h"
#include "report.h"

#define CHUNK_PAGES 64
#define CHUNK (CHUNK_PAGES * PAGE)
/* Pages of the file; the check goes round until as many were written as was asked. */
#define FILE_PAGES 8192

struct race {
	int fd;
	volatile char *addr;
	/* The bytes that the two race for at a time, and what becomes of their entries. */
	size_t chunk;
	void (*take_away)(struct race *race, size_t at);
	uint64_t round;
	/* Chunks that both sides have come to: spinning, because sleeping takes longer than a chunk. */
	atomic_uint writer_at, taker_at;
	/* Ticks that the last chunk was taken away in. */
	_Atomic uint64_t taking;
};

static void zap(struct race *race, size_t at)
{
	if (madvise((void *)(race->addr + at), CHUNK, MADV_DONTNEED) < 0)
		fail("madvise DONTNEED");
}

static void map_over(struct race *race, size_t at)
{
	void *over = mmap((void *)(race->addr + at), CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, race->fd, at);

	if (over == MAP_FAILED)
		fail("map over a chunk");
}

/* Leaves the old place mapped, so that the writer can go on. */
static void move_away(struct race *race, size_t at)
{
	void *chunk = (void *)(race->addr + at);
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

/* For a random part of the time that the taker took last. */
static void wait_a_while(const struct race *race, uint32_t *random)
{
	uint64_t began = ticks(), wait;

	*random = *random * 1664525 + 1013904223;
	wait = (atomic_load(&race->taking) >> 8) * (*random >> 24);
	while (ticks() - began < wait)
		;
}

static void *writer(void *argument)
{
	struct race *race = argument;
	uint32_t random = race->round;

	for (size_t at = 0; at < FILE_PAGES * PAGE; at += race->chunk) {
		meet(&race->writer_at, &race->taker_at);
		wait_a_while(race, &random);
		for (size_t page = race->chunk / PAGE; page-- > 0;)
			*(volatile uint64_t *)(race->addr + at + page * PAGE) = race->round;
	}
	return NULL;
}

static void run_round(struct race *race)
{
	pthread_t thread;

	atomic_store(&race->writer_at, 0);
	atomic_store(&race->taker_at, 0);
	if (pthread_create(&thread, NULL, writer, race))
		fail("start a writer");
	for (size_t at = 0; at < FILE_PAGES * PAGE; at += race->chunk) {
		uint64_t began;

		meet(&race->taker_at, &race->writer_at);
		began = ticks();
		race->take_away(race, at);
		atomic_store(&race->taking, ticks() - began);
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

static struct finding race_for_file(void (*take_away)(struct race *, size_t), uint32_t pages)
{
	struct race race = { .fd = tmpfs_file(FILE_PAGES * PAGE), .chunk = CHUNK, .take_away = take_away };
	struct finding finding = { 0 };

	race.addr = map_or_fail(race.fd, FILE_PAGES * PAGE, MAP_SHARED);
	while (goes_on(&finding, pages)) {
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
	return race_for_file(zap, pages);
}

struct finding check_dirty_race_unmap(uint32_t pages)
{
	return race_for_file(map_over, pages);
}

struct finding check_dirty_race_mremap(uint32_t pages)
{
	return race_for_file(move_away, pages);
}

static void fork_off(struct race *race, size_t at)
{
	(void)race, (void)at;
	fork_once();
}

/* Private pages that may be freed unless they are written again: clean, and writable. */
static volatile char *freeable_pages(void)
{
	volatile char *addr = map_or_fail(-1, FILE_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	for (size_t at = 0; at < FILE_PAGES * PAGE; at += PAGE)
		*(volatile uint64_t *)(addr + at) = UINT64_MAX;
	if (madvise((void *)addr, FILE_PAGES * PAGE, MADV_FREE) < 0)
		fail("madvise FREE");
	return addr;
}

/* All that can be freed is. */
static uint64_t count_freed(struct race *race)
{
	uint64_t lost = 0;

	page_out((void *)race->addr, FILE_PAGES * PAGE);
	for (size_t at = 0; at < FILE_PAGES * PAGE; at += PAGE)
		if (*(volatile uint64_t *)(race->addr + at) != race->round)
			lost++;
	return lost;
}

struct finding check_dirty_race_fork(uint32_t pages)
{
	struct race race = { .fd = -1, .chunk = FILE_PAGES * PAGE, .take_away = fork_off };
	struct finding finding = { 0 };

	use_swap();
	while (goes_on(&finding, pages)) {
		race.round++;
		race.addr = freeable_pages();
		run_round(&race);
		finding.tried += FILE_PAGES;
		finding.failed += count_freed(&race);
		munmap((void *)race.addr, FILE_PAGES * PAGE);
	}
	return finding;
}

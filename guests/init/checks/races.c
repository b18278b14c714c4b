// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One thread writes each page once while another removes the entries or write-protects them. Only the dirty bit of an
 * entry records what was written through it.
 *
 * The kernel walks entries upwards, and most operations hold off page faults meanwhile. A writer that went upwards too
 * would be far ahead of the kernel, or fault behind it and wait until it is done. So the writer goes downwards, from a
 * random moment on, and the two meet at one entry.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/clock.h"
#include "../../lib/linux/fail.h"
#include "../../lib/linux/process.h"
#include "../checks.h"

#define CHUNK_PAGES 64
#define CHUNK (CHUNK_PAGES * PAGE)
/* Pages of the file, and so of a round. */
#define FILE_PAGES 8192

struct race {
	int fd;
	volatile char *addr;
	/* The bytes that the two race for at a time, and how their entries are removed. */
	size_t chunk;
	void (*remove)(struct race *race, size_t at);
	uint64_t round;
	/* Chunks that each side has reached. They spin: sleeping takes longer than a chunk. */
	atomic_uint writer_at, remover_at;
	/* Ticks that removing the last chunk took. */
	_Atomic uint64_t removing;
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

/* Leaves the old address mapped, so that the writer can continue. */
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
		spin_wait();
}

/* For a random part of the time that the last removal took. */
static void wait_randomly(const struct race *race, uint32_t *random)
{
	uint64_t began = ticks(), wait;

	*random = *random * 1664525 + 1013904223;
	wait = (atomic_load(&race->removing) >> 8) * (*random >> 24);
	while (ticks() - began < wait)
		;
}

static void *writer(void *argument)
{
	struct race *race = argument;
	uint32_t random = race->round;

	for (size_t at = 0; at < FILE_PAGES * PAGE; at += race->chunk) {
		meet(&race->writer_at, &race->remover_at);
		wait_randomly(race, &random);
		for (size_t page = race->chunk / PAGE; page-- > 0;)
			*(volatile uint64_t *)(race->addr + at + page * PAGE) = race->round;
	}
	return NULL;
}

static void run_round(struct race *race)
{
	pthread_t thread;

	atomic_store(&race->writer_at, 0);
	atomic_store(&race->remover_at, 0);
	thread = start_thread(writer, race);
	for (size_t at = 0; at < FILE_PAGES * PAGE; at += race->chunk) {
		uint64_t began;

		meet(&race->remover_at, &race->writer_at);
		began = ticks();
		race->remove(race, at);
		atomic_store(&race->removing, ticks() - began);
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

static struct finding race_for_file(void (*remove)(struct race *, size_t), uint32_t pages)
{
	struct race race = { .fd = tmpfs_file(FILE_PAGES * PAGE), .chunk = CHUNK, .remove = remove };
	struct finding finding = { 0 };

	race.addr = map_or_fail(race.fd, FILE_PAGES * PAGE, MAP_SHARED);
	while (needs_round(&finding, pages)) {
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

/* Private pages after MADV_FREE, clean and writable: reclaim frees those that are not written again. */
static volatile char *freeable_pages(void)
{
	volatile char *addr = map_or_fail(-1, FILE_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);

	for (size_t at = 0; at < FILE_PAGES * PAGE; at += PAGE)
		*(volatile uint64_t *)(addr + at) = UINT64_MAX;
	if (madvise((void *)addr, FILE_PAGES * PAGE, MADV_FREE) < 0)
		fail("madvise FREE");
	return addr;
}

/* Frees all that can be freed. */
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
	struct race race = { .fd = -1, .chunk = FILE_PAGES * PAGE, .remove = fork_off };
	struct finding finding = { 0 };

	use_swap();
	while (needs_round(&finding, pages)) {
		race.round++;
		race.addr = freeable_pages();
		run_round(&race);
		finding.tried += FILE_PAGES;
		finding.failed += count_freed(&race);
		munmap((void *)race.addr, FILE_PAGES * PAGE);
	}
	return finding;
}

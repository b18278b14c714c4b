// SPDX-License-Identifier: GPL-2.0-only
/* The ways to bring a guest's memory back from an image. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "../demand-probe/mapping/mapping.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "trial.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

static size_t bytes(const struct trial *trial)
{
	return trial->image.pages * PAGE;
}

static void map(const struct trial *trial, int flags, int file)
{
	if (mmap(trial->at, bytes(trial), PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == MAP_FAILED)
		fail("map the memory");
}

static void advise(const struct trial *trial, int advice, const char *what)
{
	if (madvise(trial->at, bytes(trial), advice) < 0)
		fail(what);
}

static void place_anonymous(struct trial *trial)
{
	map(trial, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	advise(trial, MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE)");
}

static void place_image(struct trial *trial)
{
	map(trial, MAP_PRIVATE, trial->image.file);
}

static int make_memfd(const struct trial *trial, unsigned int flags)
{
	int file = memfd_create("restored", MFD_CLOEXEC | flags);

	if (file < 0 || ftruncate(file, bytes(trial)) < 0)
		fail("make a memfd");
	return file;
}

static void place_shared(struct trial *trial)
{
	int file = make_memfd(trial, 0);
	char *second = mmap(NULL, bytes(trial), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (second == MAP_FAILED)
		fail("map shared memory again");
	map(trial, MAP_SHARED, file);
	close(file);
	trial->reader.second = second;
}

static void place_hugetlb(struct trial *trial)
{
	int file = make_memfd(trial, MFD_HUGETLB | MFD_HUGE_2MB);

	map(trial, MAP_SHARED, file);
	close(file);
}

static void read_all(struct trial *trial)
{
	image_read(&trial->image, 0, trial->image.pages, trial->at);
}

static void read_ahead(struct trial *trial)
{
	advise(trial, MADV_WILLNEED, "madvise(MADV_WILLNEED)");
}

static void populate(struct trial *trial)
{
	advise(trial, MADV_POPULATE_READ, "madvise(MADV_POPULATE_READ)");
}

static void serve(struct trial *trial)
{
	reader_register(&trial->reader, trial->at, trial->reader.second, MESSAGE);
	reader_start(&trial->reader);
}

static void let_accesses_fail(struct trial *trial)
{
	reader_register(&trial->reader, trial->at, NULL, ERROR);
}

static void prefault(struct trial *trial)
{
	machine_prefault(&trial->machine, 0, trial->image.pages);
}

static void replay(struct trial *trial)
{
	reader_replay(&trial->reader, trial->visits.is_recorded);
}

static const char *lacks_prefault(const struct trial *trial)
{
	return machine_can_prefault(&trial->machine) ? NULL : "KVM_CAP_PRE_FAULT_MEMORY";
}

static const char *lacks_minor_faults(const struct trial *trial)
{
	(void)trial;
	return reader_lacks_minor();
}

static const char *lacks_hugetlb(const struct trial *trial)
{
	return set_hugetlb_pool(trial->image.pages) ? NULL : "so many pages of 2 MiB";
}

static const struct mechanism mechanisms[] = {
	{ "read", place_anonymous, read_all },
	{ "map", place_image },
	{ "map-willneed", place_image, read_ahead },
	{ "map-populate", place_image, populate },
	{ "kvm-pre-fault", place_image, populate, prefault, lacks_prefault },
	{ "uffd", place_anonymous, serve },
	{ "replay", place_anonymous, serve, replay },
	{ "exit", place_anonymous, let_accesses_fail },
	{ "continue", place_shared, serve, NULL, lacks_minor_faults, .is_shared = true },
	{ "hugetlb-2m", place_hugetlb, serve, NULL, lacks_hugetlb, .is_hugetlb = true, .is_shared = true },
};

const struct mechanism *mechanism_find(const char *name)
{
	return find_named(mechanisms, name);
}

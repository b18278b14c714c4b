// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "steady.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../fail.h"
#include "../file.h"
#include "../tick/tick.h"

#define PAGE_LISTS "/proc/sys/vm/percpu_pagelist_high_fraction"
/* The largest that the kernel takes: MIN_PERCPU_PAGELIST_HIGH_FRACTION in mm/page_alloc.c. */
#define EIGHTH "8"
/* Above the 2 s after which memory cgroups sum up: FLUSH_TIME of mm/memcontrol.c. */
#define REST_S 3
/* POOL_READY_BITS of drivers/char/random.c */
#define SEED_BITS 256

static void credit_randomness(void)
{
	struct {
		struct rand_pool_info info;
		unsigned char bytes[SEED_BITS / 8];
	} seed = { .info = { .entropy_count = SEED_BITS, .buf_size = SEED_BITS / 8 } };
	int fd = open("/dev/random", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &seed) < 0)
		fail("credit the random number generator");
	close(fd);
}

void steady(void)
{
	if (!access(PAGE_LISTS, F_OK))
		write_file(PAGE_LISTS, EIGHTH);
	credit_randomness();
}

void rest(void)
{
	nanosleep(&(struct timespec){ .tv_sec = REST_S }, NULL);
	await_tick();
}

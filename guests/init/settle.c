// SPDX-License-Identifier: MIT OR Apache-2.0
#include "settle.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"

#define SLICE_MS 100
#define SLICES_PER_S (1000 / SLICE_MS)
#define DAMON_STAT "/sys/module/damon_stat/parameters/enabled"

void stop_access_sampling(void)
{
	if (!access(DAMON_STAT, F_OK))
		write_file(DAMON_STAT, "N");
}

/* Ticks that were not idle, of all CPUs since boot: proc(5), first line of /proc/stat. */
static unsigned long long busy_ticks(void)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq;
	FILE *stat = fopen("/proc/stat", "re");
	int got;

	if (!stat)
		fail("open /proc/stat");
	got = fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq, &softirq);
	fclose(stat);
	return got == 7 ? user + nice + system + irq + softirq : 0;
}

static void sleep_a_slice(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = SLICE_MS * 1000000l }, NULL);
}

void settle(uint32_t limit_s)
{
	unsigned long long before = busy_ticks();
	uint32_t slices = 0, quiet = 0;

	while (quiet < SLICES_PER_S && slices < limit_s * SLICES_PER_S) {
		unsigned long long now;

		sleep_a_slice();
		now = busy_ticks();
		quiet = now == before ? quiet + 1 : 0;
		before = now;
		slices++;
	}
	report("{\"kind\":\"settled\",\"quiet\":%s,\"milliseconds\":%u}", quiet < SLICES_PER_S ? "false" : "true",
	       slices * SLICE_MS);
}

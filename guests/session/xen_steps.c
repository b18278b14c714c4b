// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Xen's public/sysctl.h (lockprof_op) and public/xen.h (mmuext_op). Memory that Xen reads or writes is
 * locked.
 */
#define _GNU_SOURCE
#include "xen_steps.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/process.h"
#include "../lib/xentrace.h"
#include "../steps/hypfs.h"
#include "../steps/privcmd.h"

#define HYPERVISOR_MMUEXT_OP 26

#define LOCKPROF_RESET 1
#define LOCKPROF_QUERY 2
#define LOCKPROF_GLOBAL 0
/* Xen 4.17 has 40 global locks and two for each domain. */
#define MOST_LOCKS 4096u

#define MMUEXT_TLB_FLUSH_ALL 10
#define DOMID_SELF 0x7ff0u

struct lock_data {
	char name[40];
	int32_t type;
	int32_t index;
	uint64_t lock_count;
	uint64_t block_count;
	uint64_t lock_time;
	uint64_t block_time;
};

struct mmuext_op {
	uint32_t cmd;
	uint64_t arg1;
	uint64_t arg2;
};

static void step_parameter(const char *name)
{
	report("{\"kind\":\"parameter\",\"name\":\"%s\",\"value\":%u}", name, hypfs_parameter(name, HYPFS_BOOL));
}

static void step_trace_state(void)
{
	struct xentrace_state found = xentrace_state(&xentrace_by_privcmd);

	report("{\"kind\":\"trace\",\"mask\":%u,\"busy\":%u}", found.mask, found.busy);
}

static long lockprof(uint32_t command, void *data, uint32_t most)
{
	static struct xen_sysctl call;
	long ret = -EACCES;

	/* As in lib/xentrace.c: Xen answers so to a version that is not its own. */
	for (uint32_t version = 0x10; version < 0x40 && ret == -EACCES; version++) {
		call = (struct xen_sysctl){ .cmd = SYSCTL_LOCKPROF_OP, .interface_version = version };
		call.lockprof.cmd = command;
		call.lockprof.max_elem = most;
		call.lockprof.data = (uint64_t)data;
		privcmd_lock(&call, sizeof(call));
		ret = privcmd_hypercall(HYPERVISOR_SYSCTL, (uint64_t)&call, 0);
	}
	return ret ? ret : call.lockprof.nr_elem;
}

static void step_lock_reset(void)
{
	long ret = lockprof(LOCKPROF_RESET, NULL, 0);

	/* A Xen without profiles: the query says so. */
	if (ret < 0 && ret != -ENOSYS)
		fail_with("begin the profiles of Xen's locks", -ret);
}

static void report_lock(const struct lock_data *lock)
{
	report("{\"kind\":\"lock\",\"name\":\"%s\",\"lock\":{\"count\":%llu,\"time\":%llu},"
	       "\"block\":{\"count\":%llu,\"time\":%llu}}",
	       lock->name, (unsigned long long)lock->lock_count, (unsigned long long)lock->lock_time,
	       (unsigned long long)lock->block_count, (unsigned long long)lock->block_time);
}

static void step_lock_profile(const char *name)
{
	static struct lock_data locks[MOST_LOCKS];
	long count;

	privcmd_lock(locks, sizeof(locks));
	count = lockprof(LOCKPROF_QUERY, locks, MOST_LOCKS);
	if (count == -ENOSYS) {
		report("{\"kind\":\"lock-unavailable\"}");
		return;
	}
	if (count < 0)
		fail_with("read the profiles of Xen's locks", -count);
	for (long i = 0; i < count && i < MOST_LOCKS; i++) {
		if (locks[i].type == LOCKPROF_GLOBAL && !strncmp(locks[i].name, name, sizeof(locks[i].name))) {
			report_lock(&locks[i]);
			return;
		}
	}
	fail_with(name, ENOENT);
}

static struct {
	cpu_set_t cpus;
	pthread_barrier_t start;
	uint32_t count;
} contest;

struct contestant {
	int cpu;
	uint64_t taken;
};

static void *flush_all(void *argument)
{
	struct contestant *self = argument;
	struct mmuext_op op = { .cmd = MMUEXT_TLB_FLUSH_ALL };
	uint64_t start;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(self->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("stay on a CPU");
	privcmd_lock(&op, sizeof(op));
	pthread_barrier_wait(&contest.start);
	start = ticks();
	for (uint32_t i = 0; i < contest.count; i++) {
		long ret = privcmd_call(HYPERVISOR_MMUEXT_OP, (uint64_t[PRIVCMD_ARGUMENTS]){
			(uint64_t)&op, 1, 0, DOMID_SELF });

		if (ret)
			fail_with("flush all TLBs", -ret);
	}
	self->taken = ticks() - start;
	return NULL;
}

void xen_steps_begin(void)
{
	if (sched_getaffinity(0, sizeof(contest.cpus), &contest.cpus) < 0)
		fail("find the CPUs");
}

static uint32_t contestants_of(struct contestant *contestants)
{
	uint32_t count = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &contest.cpus))
			contestants[count++] = (struct contestant){ .cpu = cpu };
	return count;
}

static void step_contend(uint32_t count)
{
	static struct contestant contestants[CPU_SETSIZE];
	static pthread_t threads[CPU_SETSIZE];
	uint32_t cpus = contestants_of(contestants);
	uint64_t taken = 0;

	contest.count = count / cpus ? count / cpus : 1;
	pthread_barrier_init(&contest.start, NULL, cpus);
	for (uint32_t i = 0; i < cpus; i++)
		threads[i] = start_thread(flush_all, &contestants[i]);
	for (uint32_t i = 0; i < cpus; i++) {
		pthread_join(threads[i], NULL);
		taken += contestants[i].taken;
	}
	report("{\"kind\":\"contended\",\"cpus\":%u,\"count\":%u,\"instructions\":%llu}", cpus, contest.count * cpus,
	       (unsigned long long)taken);
}

bool run_xen_step(const char *line)
{
	char word[64];
	unsigned int x;

	privcmd_open();
	if (!strcmp(line, "trace-state"))
		step_trace_state();
	else if (sscanf(line, "trace-stop %u", &x) == 1)
		xentrace_stop(&xentrace_by_privcmd, x);
	else if (sscanf(line, "parameter-set %63s %u", word, &x) == 2)
		hypfs_set_parameter(word, HYPFS_BOOL, x);
	else if (sscanf(line, "parameter %63s", word) == 1)
		step_parameter(word);
	else if (!strcmp(line, "lock-reset"))
		step_lock_reset();
	else if (sscanf(line, "lock-profile %63s", word) == 1)
		step_lock_profile(word);
	else if (sscanf(line, "contend %u", &x) == 1)
		step_contend(x);
	else
		return false;
	return true;
}

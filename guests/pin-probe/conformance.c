// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Carries out the map and unmap cases of conformance/vfio, each in a process and a container of its own. A line:
 *
 *   case INDEX                                  ends the case before
 *   memory SHAPE PAGES                          see memory.h, or mmio: the device's registers
 *   limit PAGES                                 RLIMIT_MEMLOCK, without CAP_IPC_LOCK
 *   map MEMORY OFFSET IOVA SIZE FLAGS ARGSZ     numbers in hexadecimal; MEMORY is a number from 0 in order of the lines
 *   unmap IOVA SIZE FLAGS ARGSZ
 *   read IOVA                                   what the device reads there
 *   write IOVA MEMORY OFFSET                    the device writes there; what the CPU then finds in the memory
 *
 * Each step from `map` on is answered by three numbers: errno, a value, pages locked. The value is the bytes unmapped,
 * or the first word that was read: the first word of page P of memory M holds (M + 1) << 32 | P + 1, and 0 stands for
 * a word that no memory holds, because the IOMMU let nothing through.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../init/report.h"
#include "edu.h"
#include "memory.h"
#include "steps.h"
#include "vfio.h"

#define MEMORIES 4
#define LINE 256
#define STEPS 64
/* Where the device sees the page that carries words to and from its buffer; no case maps anything there. */
#define SCRATCH_IOVA (256ull << 30)
#define SENTINEL 0x5e5e5e5e5e5e5e5eull

typedef unsigned long long number;

static struct {
	struct vfio vfio;
	struct edu edu;
	struct memory memories[MEMORIES], scratch;
	unsigned int count;
	char answers[3500];
	size_t used;
} run;

static void answer(int code, number value)
{
	run.used += snprintf(run.answers + run.used, sizeof(run.answers) - run.used, "%s[%d,%llu,%llu]",
			     run.used ? "," : "", code, value, (number)accounted_pages(TYPE1));
	if (run.used >= sizeof(run.answers)) {
		errno = EMSGSIZE;
		fail("a case has too many steps");
	}
}

static volatile uint64_t *word(unsigned int memory, number offset)
{
	return (void *)(run.memories[memory].addr + (offset & ~(PAGE - 1)));
}

static void label(unsigned int memory)
{
	for (number page = 0; page < run.memories[memory].pages; page++)
		*word(memory, page * PAGE) = ((number)memory + 1) << 32 | (page + 1);
}

static void add_memory(const char *shape, number pages)
{
	struct memory *memory = &run.memories[run.count];

	if (run.count == MEMORIES || memory_unavailable(shape, pages)) {
		errno = ENOMEM;
		fail(shape);
	}
	if (!strcmp(shape, "mmio")) {
		*memory = (struct memory){ .addr = (char *)run.edu.registers, .pages = pages };
	} else {
		*memory = memory_get(shape, pages);
		if (strcmp(shape, "none"))
			label(run.count);
		if (!strcmp(shape, "read-only"))
			mprotect(memory->addr, pages * PAGE, PROT_READ);
	}
	run.count++;
}

static void drop_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		fail("capget");
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &header, data) < 0)
		fail("capset");
}

static void limit(number pages)
{
	struct rlimit limit = { .rlim_cur = pages * PAGE, .rlim_max = RLIM_INFINITY };

	drop_ipc_lock();
	if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		fail("setrlimit");
}

static void map(unsigned int memory, number offset, number iova, const number rest[3])
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = rest[2],
		.flags = rest[1],
		.vaddr = memory < MEMORIES ? (uintptr_t)run.memories[memory].addr + offset : offset,
		.iova = iova,
		.size = rest[0],
	};

	answer(ioctl(run.vfio.container, VFIO_IOMMU_MAP_DMA, &map) < 0 ? errno : 0, 0);
}

static void unmap(number iova, number size, number flags, number argsz)
{
	struct vfio_iommu_type1_dma_unmap unmap = { .argsz = argsz, .flags = flags, .iova = iova, .size = size };
	int code = ioctl(run.vfio.container, VFIO_IOMMU_UNMAP_DMA, &unmap) < 0 ? errno : 0;

	answer(code, code ? 0 : unmap.size);
}

/* The scratch page is mapped for the moment of a transfer only, and whatever the limit of the case is. */
static void lend_scratch(struct rlimit *before)
{
	getrlimit(RLIMIT_MEMLOCK, before);
	setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
	vfio_map(&run.vfio, run.scratch.addr, SCRATCH_IOVA, PAGE);
	*(volatile uint64_t *)run.scratch.addr = SENTINEL;
	edu_fetch(&run.edu, SCRATCH_IOVA);
}

static void return_scratch(const struct rlimit *before)
{
	vfio_unmap(&run.vfio, SCRATCH_IOVA, PAGE);
	setrlimit(RLIMIT_MEMLOCK, before);
}

static void device_reads(number iova)
{
	struct rlimit before;
	uint64_t value;

	lend_scratch(&before);
	edu_fetch(&run.edu, iova);
	edu_store(&run.edu, SCRATCH_IOVA);
	value = *(volatile uint64_t *)run.scratch.addr;
	return_scratch(&before);
	answer(0, value == SENTINEL ? 0 : value);
}

static void device_writes(number iova, unsigned int memory, number offset)
{
	number held = *word(memory, offset), found;
	struct rlimit before;

	lend_scratch(&before);
	edu_store(&run.edu, iova);
	found = *word(memory, offset);
	if (found == SENTINEL)
		*word(memory, offset) = held;
	return_scratch(&before);
	answer(0, found);
}

static void run_step(const char *line)
{
	unsigned int memory;
	number a, b, rest[3];
	char shape[32];

	if (sscanf(line, "memory %31s %llu", shape, &a) == 2)
		add_memory(shape, a);
	else if (sscanf(line, "limit %llu", &a) == 1)
		limit(a);
	else if (sscanf(line, "map %u %llx %llx %llx %llx %llx", &memory, &a, &b, &rest[0], &rest[1], &rest[2]) == 6)
		map(memory, a, b, rest);
	else if (sscanf(line, "unmap %llx %llx %llx %llx", &a, &b, &rest[0], &rest[1]) == 4)
		unmap(a, b, rest[0], rest[1]);
	else if (sscanf(line, "write %llx %u %llx", &a, &memory, &b) == 3)
		device_writes(a, memory, b);
	else if (sscanf(line, "read %llx", &a) == 1)
		device_reads(a);
	else {
		errno = EINVAL;
		fail(line);
	}
}

static void run_case(unsigned int index, char lines[STEPS][LINE], unsigned int count)
{
	run.vfio = vfio_open(TYPE1);
	run.edu = edu_open(&run.vfio);
	run.scratch = memory_get("4K", 1);
	for (unsigned int i = 0; i < count; i++)
		run_step(lines[i]);
	report("{\"kind\":\"pin-case\",\"index\":%u,\"answers\":[%s]}", index, run.answers);
	_exit(0);
}

/* A process of its own: limits, capabilities and the container are gone with it. */
static void fork_case(unsigned int index, char lines[STEPS][LINE], unsigned int count)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child)
		run_case(index, lines, count);
	if (waitpid(child, &status, 0) < 0 || status) {
		errno = ECHILD;
		fail("a case ended early");
	}
}

void step_conformance(const char *path)
{
	static char lines[STEPS][LINE];
	unsigned int index = 0, next, count = 0;
	char line[LINE];
	FILE *cases = fopen(path, "re");

	if (!cases)
		fail(path);
	while (fgets(line, sizeof(line), cases)) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "case %u", &next) == 1) {
			if (count)
				fork_case(index, lines, count);
			index = next;
			count = 0;
		} else if (count < STEPS) {
			strcpy(lines[count++], line);
		}
	}
	if (count)
		fork_case(index, lines, count);
	fclose(cases);
}

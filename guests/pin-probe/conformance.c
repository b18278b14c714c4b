// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs the map and unmap cases of conformance/vfio, each in a process and a container of its own. A line:
 *
 *   case INDEX                                  begins a case
 *   memory SHAPE PAGES                          see memory.h, or mmio: the device's registers
 *   limit PAGES                                 RLIMIT_MEMLOCK, without CAP_IPC_LOCK
 *   map MEMORY OFFSET IOVA SIZE FLAGS ARGSZ     numbers in hexadecimal; MEMORY counts the memory lines from 0
 *   unmap IOVA SIZE FLAGS ARGSZ
 *   read IOVA                                   what the device reads there
 *   write IOVA MEMORY OFFSET                    the device writes there; what the CPU then finds in the memory
 *
 * The answer to each step from `map` on is three numbers: errno, a value, pages locked. The value is the bytes unmapped,
 * or the first word that was read: the first word of page P of memory M holds (M + 1) << 32 | P + 1, and 0 stands for
 * a word that no memory holds, because the IOMMU blocked the transfer.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/linux/cases.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"
#include "edu.h"
#include "memory.h"
#include "steps.h"
#include "vfio.h"

#define MEMORIES 4
/* The page that carries words to and from the device's buffer; no case maps anything there. */
#define SCRATCH_IOVA (256ull << 30)
#define SENTINEL 0x5e5e5e5e5e5e5e5eull

typedef unsigned long long number;

static struct {
	struct vfio vfio;
	struct edu edu;
	struct memory memories[MEMORIES], scratch;
	unsigned int memories_used;
	bool has_answer;
} run;

static void answer(int code, number value)
{
	report_more("%s[%d,%llu,%lu]", run.has_answer ? "," : "", code, value, accounted_pages(TYPE1));
	run.has_answer = true;
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
	struct memory *memory = &run.memories[run.memories_used];

	if (run.memories_used == MEMORIES || memory_unavailable(shape, pages))
		fail_with(shape, ENOMEM);
	if (!strcmp(shape, "mmio")) {
		*memory = (struct memory){ .addr = (char *)run.edu.registers, .pages = pages };
	} else {
		*memory = memory_get(shape, pages);
		if (strcmp(shape, "none"))
			label(run.memories_used);
		if (!strcmp(shape, "read-only"))
			mprotect(memory->addr, pages * PAGE, PROT_READ);
	}
	run.memories_used++;
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

/* The scratch page is mapped only for a transfer, and without the limit of the case. */
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
	else
		fail_with(line, EINVAL);
}

static void run_case(void)
{
	run.vfio = vfio_open(TYPE1);
	run.edu = edu_open(&run.vfio);
	run.scratch = memory_get("4K", 1);
	report_begin("{\"kind\":\"pin-case\",\"index\":%u,\"answers\":[", pending.index);
	for (unsigned int i = 0; i < pending.count; i++)
		run_step(pending.lines[i]);
	report_more("]}");
	report_end();
	_exit(0);
}

void step_conformance(const char *path)
{
	run_cases(path);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* The ioctls are those of Linux's include/uapi/xen/privcmd.h. */
#include "privcmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../lib/linux/fail.h"

struct privcmd_hypercall {
	uint64_t op;
	uint64_t arg[PRIVCMD_ARGUMENTS];
};

struct privcmd_mmapbatch_v2 {
	unsigned int num;
	uint16_t dom;
	uint64_t addr;
	const uint64_t *arr;
	int *err;
};

#define IOCTL_PRIVCMD_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))
#define IOCTL_PRIVCMD_MMAPBATCH_V2 _IOC(_IOC_NONE, 'P', 4, sizeof(struct privcmd_mmapbatch_v2))

static int privcmd = -1;

void privcmd_open(void)
{
	if (privcmd >= 0)
		return;
	privcmd = open("/dev/xen/privcmd", O_RDWR | O_CLOEXEC);
	if (privcmd < 0)
		fail("open /dev/xen/privcmd");
}

long privcmd_call(uint64_t op, const uint64_t arguments[PRIVCMD_ARGUMENTS])
{
	struct privcmd_hypercall call = { .op = op };
	long ret;

	memcpy(call.arg, arguments, sizeof(call.arg));
	ret = ioctl(privcmd, IOCTL_PRIVCMD_HYPERCALL, &call);
	return ret < 0 ? -errno : ret;
}

long privcmd_hypercall(uint64_t op, uint64_t a0, uint64_t a1)
{
	return privcmd_call(op, (uint64_t[PRIVCMD_ARGUMENTS]){ a0, a1 });
}

void *privcmd_map(unsigned int dom, const uint64_t *frames, unsigned int count, int protection)
{
	size_t size = (size_t)count * 4096;
	void *addr = mmap(NULL, size, protection, MAP_SHARED, privcmd, 0);
	int *errors = calloc(count, sizeof(*errors));
	struct privcmd_mmapbatch_v2 batch = { .num = count, .dom = dom, .addr = (uint64_t)addr, .arr = frames, .err = errors };

	if (addr == MAP_FAILED || !errors)
		fail("reserve memory for a foreign mapping");
	if (ioctl(privcmd, IOCTL_PRIVCMD_MMAPBATCH_V2, &batch) < 0)
		fail("map frames of another domain");
	for (unsigned int i = 0; i < count; i++)
		if (errors[i])
			fail_with("map a frame of another domain", -errors[i]);
	free(errors);
	return addr;
}

void privcmd_mark(uint32_t base, uint32_t id)
{
	privcmd_hypercall(HYPERVISOR_SCHED_OP, base + id, 0);
}

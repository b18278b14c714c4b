// SPDX-License-Identifier: MIT OR Apache-2.0
/* Structures and rules: Xen's public/sysctl.h (tbuf_op) and public/trace.h (t_info, t_buf). */
#include "xentrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "privcmd.h"
#include "report.h"

#define SYSCTL_TBUF_OP 2
#define TBUFOP_GET_INFO 0
#define TBUFOP_SET_EVT_MASK 2
#define TBUFOP_SET_SIZE 3
#define TBUFOP_ENABLE 4
#define TBUFOP_DISABLE 5

#define TRC_PV 0x0020f000u
#define CPU_CHANGE_HEADER (0x0001f003u | 2u << 28)

#define PAGE 4096u

struct sysctl {
	uint32_t cmd;
	uint32_t interface_version;
	struct {
		uint32_t cmd;
		struct {
			uint64_t bitmap;
			uint32_t nr_bits;
		} cpu_mask;
		uint32_t evt_mask;
		uint64_t buffer_mfn;
		uint32_t size;
	} tbuf;
	uint8_t pad[128];
};

struct t_info {
	uint16_t tbuf_size;
	uint16_t mfn_offset[];
};

struct t_buf {
	volatile uint32_t cons;
	volatile uint32_t prod;
	uint8_t data[];
};

static struct sysctl *call;
static struct t_buf *buffers[64];
static unsigned int cpus;
static uint32_t data_size;
static struct {
	uint8_t *bytes;
	size_t size;
	size_t room;
} captured;

static long tbuf_op(uint32_t command)
{
	call->cmd = SYSCTL_TBUF_OP;
	call->tbuf.cmd = command;
	return privcmd_hypercall(HYPERVISOR_SYSCTL, (uint64_t)call, 0);
}

/* Xen answers EACCES to a version that is not its own (xen/common/sysctl.c): 0x13 is Xen 4.13, 0x16 Xen 4.21. */
static void find_interface_version(void)
{
	long ret = -EACCES;

	for (uint32_t version = 0x10; version < 0x40 && ret == -EACCES; version++) {
		call->interface_version = version;
		ret = tbuf_op(TBUFOP_GET_INFO);
	}
	if (ret) {
		errno = -ret;
		fail("find the sysctl version of this Xen");
	}
}

static void must(uint32_t command, const char *what)
{
	long ret = tbuf_op(command);

	if (ret) {
		errno = -ret;
		fail(what);
	}
}

static void map_buffer(const struct t_info *info, unsigned int cpu)
{
	const uint32_t *list = (const uint32_t *)info + info->mfn_offset[cpu];
	uint64_t *frames = calloc(info->tbuf_size, sizeof(*frames));

	if (!frames)
		fail("memory for trace buffers");
	for (unsigned int i = 0; i < info->tbuf_size; i++)
		frames[i] = list[i];
	buffers[cpu] = privcmd_map(DOMID_XEN, frames, info->tbuf_size, PROT_READ | PROT_WRITE);
	free(frames);
}

static void map_buffers(void)
{
	unsigned int pages = (call->tbuf.size + PAGE - 1) / PAGE;
	uint64_t *frames = calloc(pages, sizeof(*frames));
	const struct t_info *info;

	if (!frames)
		fail("memory for trace buffers");
	for (unsigned int i = 0; i < pages; i++)
		frames[i] = call->tbuf.buffer_mfn + i;
	/* Xen shares this part read-only. */
	info = privcmd_map(DOMID_XEN, frames, pages, PROT_READ);
	free(frames);
	data_size = info->tbuf_size * PAGE - (uint32_t)sizeof(struct t_buf);
	cpus = sysconf(_SC_NPROCESSORS_CONF);
	if (cpus > sizeof(buffers) / sizeof(buffers[0]))
		cpus = sizeof(buffers) / sizeof(buffers[0]);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		if (info->mfn_offset[cpu])
			map_buffer(info, cpu);
}

void xentrace_begin(uint32_t pages)
{
	if (!call) {
		/* Hypercall arguments must stay resident. */
		call = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
		if (call == MAP_FAILED)
			fail("memory for a hypercall");
		find_interface_version();
		call->tbuf.size = pages;
		must(TBUFOP_SET_SIZE, "set the size of the trace buffers");
		must(TBUFOP_GET_INFO, "find the trace buffers");
		map_buffers();
	}
	call->tbuf.evt_mask = TRC_PV;
	must(TBUFOP_SET_EVT_MASK, "choose the trace events");
	must(TBUFOP_ENABLE, "start tracing");
}

static void append(const void *data, size_t size)
{
	if (captured.size + size > captured.room) {
		captured.room = 2 * captured.room + size;
		captured.bytes = realloc(captured.bytes, captured.room);
		if (!captured.bytes)
			fail("memory for the trace");
	}
	memcpy(captured.bytes + captured.size, data, size);
	captured.size += size;
}

/* cons and prod run from 0 to twice the data's size, so that a full buffer differs from an empty one. */
static void drain_cpu(unsigned int cpu)
{
	struct t_buf *buffer = buffers[cpu];
	uint32_t prod = buffer->prod, cons = buffer->cons;
	uint32_t window = prod >= cons ? prod - cons : prod + 2 * data_size - cons;
	uint32_t header[3] = { CPU_CHANGE_HEADER, cpu, window };
	uint32_t offset = cons % data_size;
	uint32_t first = window < data_size - offset ? window : data_size - offset;

	if (!window)
		return;
	__sync_synchronize();
	append(header, sizeof(header));
	append(buffer->data + offset, first);
	append(buffer->data, window - first);
	__sync_synchronize();
	buffer->cons = prod;
}

void xentrace_drain(void)
{
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		if (buffers[cpu])
			drain_cpu(cpu);
}

const void *xentrace_end(size_t *size)
{
	must(TBUFOP_DISABLE, "stop tracing");
	xentrace_drain();
	*size = captured.size;
	return captured.bytes;
}

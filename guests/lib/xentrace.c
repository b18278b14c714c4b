// SPDX-License-Identifier: MIT OR Apache-2.0
#include "xentrace.h"

#include "report.h"
#include "shared_memory.h"

#define SYSCTL_TBUF_OP 2
#define SYSCTL_PHYSINFO 3
#define TBUFOP_GET_INFO 0
#define TBUFOP_SET_EVT_MASK 2
#define TBUFOP_SET_SIZE 3
#define TBUFOP_ENABLE 4
#define TBUFOP_DISABLE 5

#define TRC_PV 0x0020f000u
#define CPU_CHANGE_HEADER (0x0001f003u | 2u << 28)

#define PAGE_SIZE 4096u
/* Of the buffer, and of the part that says where it is: twice what an order asks for. */
#define MOST_FRAMES 2048u
/* Xen's own NR_CPUS is 256 or less in distributions. */
#define MOST_CPUS 256u
#define EACCES 13
#define EBUSY 16
#define ENOSPC 28

struct t_info {
	uint16_t tbuf_size;
	uint16_t mfn_offset[];
};

struct t_buf {
	volatile uint32_t cons;
	volatile uint32_t prod;
	uint8_t data[];
};

static const struct xentrace_access *xen;
static struct xen_sysctl call;
static uint64_t frames[MOST_FRAMES];
static struct t_buf *buffers[MOST_CPUS];
static uint32_t cpus, data_size, mask_before;

static long tbuf_op(uint32_t command)
{
	call.cmd = SYSCTL_TBUF_OP;
	call.tbuf.cmd = command;
	return xen->sysctl(&call);
}

static void must(uint32_t command, const char *what)
{
	long ret = tbuf_op(command);

	if (ret)
		fail_with(what, -ret);
}

/* Xen answers EACCES to a version that is not its own (xen/common/sysctl.c): 0x13 is Xen 4.13, 0x16 Xen 4.21. */
static void find_interface_version(void)
{
	long ret = -EACCES;

	for (uint32_t version = 0x10; version < 0x40 && ret == -EACCES; version++) {
		call.interface_version = version;
		ret = tbuf_op(TBUFOP_GET_INFO);
	}
	if (ret)
		fail_with("find the sysctl version of this Xen", -ret);
}

static void require_room(uint32_t count)
{
	if (count > MOST_FRAMES)
		fail_with("map the trace buffer", ENOSPC);
}

static struct t_buf *map_buffer(const uint32_t *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		frames[i] = list[i];
	return xen->map(frames, count, true);
}

static uint32_t count_cpus(void)
{
	long ret;

	call.cmd = SYSCTL_PHYSINFO;
	ret = xen->sysctl(&call);
	if (ret)
		fail_with("count the CPUs of this Xen", -ret);
	if (call.physinfo.nr_cpus > MOST_CPUS)
		fail_with("trace so many CPUs", ENOSPC);
	return call.physinfo.nr_cpus;
}

/* Offsets beyond those of the CPUs are not set. */
static void map_buffers(void)
{
	uint32_t info_pages = (call.tbuf.size + PAGE_SIZE - 1) / PAGE_SIZE;
	const struct t_info *info;

	require_room(info_pages);
	for (uint32_t i = 0; i < info_pages; i++)
		frames[i] = call.tbuf.buffer_mfn + i;
	/* Xen shares this part read-only. */
	info = xen->map(frames, info_pages, false);
	require_room(info->tbuf_size);
	cpus = count_cpus();
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		buffers[cpu] = map_buffer((const uint32_t *)info + info->mfn_offset[cpu], info->tbuf_size);
	data_size = info->tbuf_size * PAGE_SIZE - sizeof(*buffers[0]);
}

static uint32_t recorded(void)
{
	uint32_t sum = 0;

	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		sum += buffers[cpu]->prod;
	return sum;
}

/* Xen does not say whether it traces: what is recorded does. */
static bool is_busy(void)
{
	uint32_t before = recorded();

	if (!xen->pause)
		return false;
	xen->pause();
	return recorded() != before;
}

static void find(const struct xentrace_access *access)
{
	xen = access;
	find_interface_version();
}

struct xentrace_state xentrace_state(const struct xentrace_access *access)
{
	struct xentrace_state state;

	find(access);
	state = (struct xentrace_state){ .mask = call.tbuf.evt_mask };
	/* Without buffers, no trace is running. */
	if (call.tbuf.size) {
		map_buffers();
		state.busy = is_busy();
	}
	return state;
}

void xentrace_stop(const struct xentrace_access *access, uint32_t mask)
{
	find(access);
	if (call.tbuf.evt_mask != TRC_PV)
		return;
	must(TBUFOP_DISABLE, "stop tracing");
	call.tbuf.evt_mask = mask;
	must(TBUFOP_SET_EVT_MASK, "restore the trace events");
}

void xentrace_begin(const struct xentrace_access *access, uint32_t pages)
{
	bool fresh;

	find(access);
	mask_before = call.tbuf.evt_mask;
	/* Buffers cannot be resized; allocating them starts a trace. */
	fresh = !call.tbuf.size;
	if (fresh) {
		call.tbuf.size = pages;
		must(TBUFOP_SET_SIZE, "set the size of the trace buffers");
		must(TBUFOP_GET_INFO, "find the trace buffers");
	}
	map_buffers();
	if (!fresh && is_busy())
		fail_with("trace: Xen's trace buffers are in use", EBUSY);
	/* What another trace has left there. */
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		buffers[cpu]->cons = buffers[cpu]->prod;
	call.tbuf.evt_mask = TRC_PV;
	must(TBUFOP_SET_EVT_MASK, "choose the trace events");
	must(TBUFOP_ENABLE, "start tracing");
}

/* cons and prod run from 0 to twice the data's size, so that a full buffer differs from an empty one. */
static void drain(uint32_t cpu)
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
	shared_append(header, sizeof(header));
	shared_append(buffer->data + offset, first);
	shared_append(buffer->data, window - first);
	__sync_synchronize();
	buffer->cons = prod;
}

void xentrace_drain(void)
{
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		drain(cpu);
}

void xentrace_end(void)
{
	must(TBUFOP_DISABLE, "stop tracing");
	call.tbuf.evt_mask = mask_before;
	must(TBUFOP_SET_EVT_MASK, "restore the trace events");
	xentrace_drain();
	shared_report("xentrace");
}

// SPDX-License-Identifier: GPL-2.0-only
/* Structures and rules: Xen's public/sysctl.h (tbuf_op) and public/trace.h (t_info, t_buf), as in guests/init/xentrace.c. */
#include "trace.h"

#include "memory.h"
#include "report.h"
#include "shared.h"

#define SYSCTL_TBUF_OP 2
#define TBUFOP_GET_INFO 0
#define TBUFOP_SET_EVT_MASK 2
#define TBUFOP_SET_SIZE 3
#define TBUFOP_ENABLE 4
#define TBUFOP_DISABLE 5
#define TRC_PV 0x0020f000u
#define CPU_CHANGE_HEADER (0x0001f003u | 2u << 28)
#define EACCES 13
#define ENOSPC 28

typedef uint64_t aligned_uint64 __attribute__((aligned(8)));

struct sysctl {
	uint32_t cmd;
	uint32_t interface_version;
	struct {
		uint32_t cmd;
		struct {
			aligned_uint64 bitmap;
			uint32_t nr_bits;
		} cpu_mask;
		uint32_t evt_mask;
		aligned_uint64 buffer_mfn;
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

static struct sysctl call;
static struct t_buf *buffer;
static uint32_t data_size;

static long tbuf_op(uint32_t command)
{
	call.cmd = SYSCTL_TBUF_OP;
	call.tbuf.cmd = command;
	return hypercall2(HYPERVISOR_SYSCTL, (uint32_t)&call, 0);
}

static void must(uint32_t command, const char *what)
{
	long ret = tbuf_op(command);

	if (ret)
		fail(what, ret);
}

/* Xen answers EACCES to a version that is not its own (xen/common/sysctl.c). */
static void find_interface_version(void)
{
	long ret = -EACCES;

	for (uint32_t version = 0x10; version < 0x40 && ret == -EACCES; version++) {
		call.interface_version = version;
		ret = tbuf_op(TBUFOP_GET_INFO);
	}
	if (ret)
		fail("find the sysctl version of this Xen", ret);
}

/* Frames of Xen's, at the next addresses of the area. */
static uint32_t map_of_xen(uint32_t *at, uint64_t mfn, uint64_t flags)
{
	uint32_t here = *at;

	if (here - TRACE_BASE >= TRACE_SPAN)
		fail("room for the trace buffers", -ENOSPC);
	map_frame(here, mfn * PAGE_SIZE | PTE_PRESENT | PTE_ACCESSED | flags, DOMID_XEN);
	*at += PAGE_SIZE;
	return here;
}

static void map_buffers(void)
{
	uint32_t at = TRACE_BASE, pages = (call.tbuf.size + PAGE_SIZE - 1) / PAGE_SIZE;
	const struct t_info *info = (const struct t_info *)at;
	const uint32_t *list;

	/* Xen shares this part read-only. */
	for (uint32_t i = 0; i < pages; i++)
		map_of_xen(&at, call.tbuf.buffer_mfn + i, 0);
	list = (const uint32_t *)info + info->mfn_offset[0];
	buffer = (struct t_buf *)at;
	for (uint32_t i = 0; i < info->tbuf_size; i++)
		map_of_xen(&at, list[i], PTE_WRITABLE);
	data_size = info->tbuf_size * PAGE_SIZE - (uint32_t)sizeof(struct t_buf);
}

void trace_begin(uint32_t buffer_pages)
{
	find_interface_version();
	call.tbuf.size = buffer_pages;
	must(TBUFOP_SET_SIZE, "set the size of the trace buffers");
	must(TBUFOP_GET_INFO, "find the trace buffers");
	map_buffers();
	call.tbuf.evt_mask = TRC_PV;
	must(TBUFOP_SET_EVT_MASK, "choose the trace events");
	must(TBUFOP_ENABLE, "start tracing");
}

/* cons and prod run from 0 to twice the data's size, so that a full buffer differs from an empty one. */
void trace_drain(void)
{
	uint32_t prod = buffer->prod, cons = buffer->cons;
	uint32_t window = prod >= cons ? prod - cons : prod + 2 * data_size - cons;
	uint32_t header[3] = { CPU_CHANGE_HEADER, 0, window };
	uint32_t offset = cons % data_size;
	uint32_t first = window < data_size - offset ? window : data_size - offset;

	if (!window)
		return;
	shared_append(header, sizeof(header));
	shared_append(buffer->data + offset, first);
	shared_append(buffer->data, window - first);
	buffer->cons = prod;
}

void trace_end(void)
{
	must(TBUFOP_DISABLE, "stop tracing");
	trace_drain();
	shared_report("xentrace");
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a conformance case: operations on a few pages of its own, by real hypercalls and instructions.
 *
 * The pages are the kernel's, so the direct map has them, and the mapping of a page that a case names is its entry there.
 * A case names nothing else of the kernel. After it every page is unpinned and mapped writable again and freed, or
 * reported as unclean and never freed.
 */
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include <asm/asm.h>
#include <asm/xen/hypercall.h>
#include <asm/xen/page.h>
#include <xen/interface/xen.h>
#include <xen/xen.h>

#include "probe.h"

/* The VGA buffer, the first I/O APIC and the local APIC of every PC; half a TiB; 2^40 bytes; bits 51 to 12. */
#define IO_FRAME 0xb8ul
#define IO_READ_ONLY_FRAME 0xfec00ul
#define IO_DENIED_FRAME 0xfee00ul
#define ABSENT_FRAME 0x8000000ul
#define BEYOND_FRAME (1ul << 28)
#define ALL_ONES_FRAME ((1ul << 40) - 1)
/* Below this, frames may be I/O memory or Xen's image as it was loaded. */
#define FOREIGN_FROM 0x1000ul
/* In page 0, which user space never maps. */
#define UNREADABLE_POINTER 8ul

/* What hypercalls read, one case at a time. An invalid request follows those of each step. */
static struct {
	unsigned long page[XEN_PROBE_PAGES];
	struct mmu_update update[XEN_PROBE_REQUESTS + XEN_PROBE_STEPS];
	struct mmuext_op ext[XEN_PROBE_REQUESTS + XEN_PROBE_STEPS];
	unsigned long mask[XEN_PROBE_REQUESTS];
	unsigned long va_mask[XEN_PROBE_STEPS];
	struct multicall_entry call[XEN_PROBE_STEPS];
} work;

static unsigned long find_foreign(void)
{
	unsigned long mfn;

	for (mfn = FOREIGN_FROM; mfn < machine_to_phys_nr; mfn++)
		if (bfn_to_local_pfn(mfn) == ~0ul)
			return mfn;
	return 0;
}

static void name_frames(struct xen_probe_case *c)
{
	u32 i;

	for (i = 0; i < c->pages; i++)
		c->frame[i] = virt_to_mfn((void *)work.page[i]);
	c->frame[XEN_PROBE_FRAME_FOREIGN] = find_foreign();
	c->frame[XEN_PROBE_FRAME_IO] = IO_FRAME;
	c->frame[XEN_PROBE_FRAME_IO_READ_ONLY] = IO_READ_ONLY_FRAME;
	c->frame[XEN_PROBE_FRAME_IO_DENIED] = IO_DENIED_FRAME;
	c->frame[XEN_PROBE_FRAME_ABSENT] = ABSENT_FRAME;
	c->frame[XEN_PROBE_FRAME_BEYOND] = BEYOND_FRAME;
	c->frame[XEN_PROBE_FRAME_ALL_ONES] = ALL_ONES_FRAME;
	c->frame[XEN_PROBE_FRAME_SHARED] = xen_start_info->shared_info >> PAGE_SHIFT;
}

static u64 word(const struct xen_probe_case *c, const struct xen_probe_request *r, int which)
{
	u64 frame = r->frame[which] < XEN_PROBE_FRAMES ? c->frame[r->frame[which]] << PAGE_SHIFT : 0;

	return frame | r->bits[which];
}

/* The kernel's address of the byte that the first word names. */
static unsigned long address(const struct xen_probe_request *r)
{
	return r->frame[0] < XEN_PROBE_PAGES ? work.page[r->frame[0]] + r->bits[0] : r->bits[0];
}

static struct mmu_update *make_updates(const struct xen_probe_case *c, const struct xen_probe_step *s, u32 index)
{
	struct mmu_update *updates = &work.update[s->first + index];
	u32 i;

	for (i = 0; i < s->requests; i++) {
		updates[i].ptr = word(c, &c->request[s->first + i], 0);
		updates[i].val = word(c, &c->request[s->first + i], 1);
	}
	updates[i].ptr = 7;
	updates[i].val = 0;
	return updates;
}

static unsigned long ext_first(const struct xen_probe_case *c, const struct xen_probe_request *r)
{
	if (r->is_address)
		return address(r);
	return r->frame[0] < XEN_PROBE_FRAMES ? c->frame[r->frame[0]] : r->bits[0];
}

static unsigned long ext_second(const struct xen_probe_case *c, const struct xen_probe_request *r, u32 index)
{
	if (r->meaning == XEN_PROBE_UNREADABLE)
		return UNREADABLE_POINTER;
	if (r->meaning == XEN_PROBE_MASK) {
		work.mask[index] = r->bits[1];
		return (unsigned long)&work.mask[index];
	}
	return r->frame[1] < XEN_PROBE_FRAMES ? c->frame[r->frame[1]] : r->bits[1];
}

static struct mmuext_op *make_exts(const struct xen_probe_case *c, const struct xen_probe_step *s, u32 index)
{
	struct mmuext_op *ops = &work.ext[s->first + index];
	u32 i;

	for (i = 0; i < s->requests; i++) {
		const struct xen_probe_request *r = &c->request[s->first + i];

		memset(&ops[i], 0, sizeof(ops[i]));
		ops[i].cmd = r->command;
		ops[i].arg1.linear_addr = ext_first(c, r);
		/* The union's widest member: a pointer, a frame or a number. */
		ops[i].arg2.src_mfn = ext_second(c, r, s->first + i);
	}
	ops[i].cmd = ~0u;
	return ops;
}

static unsigned long va_flags(const struct xen_probe_step *s, u32 index)
{
	if (s->meaning == XEN_PROBE_UNREADABLE)
		return UNREADABLE_POINTER | s->flags;
	if (s->meaning == XEN_PROBE_MASK) {
		work.va_mask[index] = s->mask;
		return (unsigned long)&work.va_mask[index] | s->flags;
	}
	return s->flags;
}

static struct multicall_entry make_call(struct xen_probe_case *c, u32 index)
{
	struct xen_probe_step *s = &c->step[index];
	struct multicall_entry call = {};

	if (s->operation == XEN_PROBE_OP_MMU_UPDATE) {
		call.op = __HYPERVISOR_mmu_update;
		call.args[0] = (unsigned long)make_updates(c, s, index);
	} else if (s->operation == XEN_PROBE_OP_MMUEXT) {
		call.op = __HYPERVISOR_mmuext_op;
		call.args[0] = (unsigned long)make_exts(c, s, index);
	} else {
		call.op = s->operation == XEN_PROBE_OP_UPDATE_VA ? __HYPERVISOR_update_va_mapping :
								   __HYPERVISOR_update_va_mapping_otherdomain;
		call.args[0] = address(&c->request[s->first]);
		call.args[1] = word(c, &c->request[s->first], 1);
		call.args[2] = va_flags(s, index);
		call.args[3] = s->domain;
		return call;
	}
	call.args[1] = s->count;
	call.args[2] = (unsigned long)&s->done;
	call.args[3] = s->domain;
	return call;
}

/* The calls from `first` on as one multicall. */
static long multicall(struct xen_probe_case *c, u32 first, u32 count)
{
	long ret;
	u32 i;

	for (i = 0; i < count; i++)
		work.call[i] = make_call(c, first + i);
	ret = privcmd_call(__HYPERVISOR_multicall, (unsigned long)work.call, count, 0, 0, 0);
	for (i = 0; i < count; i++)
		c->step[first + i].code = (int)work.call[i].result;
	return ret;
}

static long single(struct xen_probe_case *c, u32 index)
{
	struct multicall_entry call = make_call(c, index);

	return (int)privcmd_call(call.op, call.args[0], call.args[1], call.args[2], call.args[3], 0);
}

/* One instruction; -EFAULT when it faults and Xen leaves the fault to the guest. */
#define INSTRUCTION(text, memory, ...)                        \
	asm volatile("1: " text "\n\txorl %k[err], %k[err]\n" \
		     "2:\n" _ASM_EXTABLE(1b, 2b)              \
		     : [err] "+&r"(err), memory, __VA_ARGS__ : : "memory", "cc")

static int instruct_8(u32 operation, u64 *at, u64 *value, u64 old)
{
	int err = -EFAULT;

	switch (operation) {
	case XEN_PROBE_OP_LOAD:
		INSTRUCTION("movq %[m], %[v]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	case XEN_PROBE_OP_STORE:
		INSTRUCTION("movq %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	case XEN_PROBE_OP_XCHG:
		INSTRUCTION("xchgq %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	default:
		INSTRUCTION("lock cmpxchgq %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value), [o] "+a"(old));
		*value = old;
	}
	return err;
}

static int instruct_4(u32 operation, u32 *at, u32 *value, u32 old)
{
	int err = -EFAULT;

	switch (operation) {
	case XEN_PROBE_OP_LOAD:
		INSTRUCTION("movl %[m], %[v]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	case XEN_PROBE_OP_STORE:
		INSTRUCTION("movl %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	case XEN_PROBE_OP_XCHG:
		INSTRUCTION("xchgl %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value));
		break;
	default:
		INSTRUCTION("lock cmpxchgl %[v], %[m]", [m] "+m"(*at), [v] "+r"(*value), [o] "+a"(old));
		*value = old;
	}
	return err;
}

static void instruct(struct xen_probe_case *c, struct xen_probe_step *s)
{
	const struct xen_probe_request *r = &c->request[s->first];
	unsigned long at = address(r);
	u64 value = word(c, r, 1);
	u64 old = s->requests > 1 ? word(c, r + 1, 1) : 0;

	if (s->count == 8) {
		s->code = instruct_8(s->operation, (u64 *)at, &value, old);
	} else {
		u32 half = value;

		s->code = instruct_4(s->operation, (u32 *)at, &half, old);
		value = half;
	}
	s->value = s->code || s->operation == XEN_PROBE_OP_STORE ? 0 : value;
}

/* Runs one step, or a multicall and its steps; returns how many. */
static u32 run_step(struct xen_probe_case *c, u32 index)
{
	struct xen_probe_step *s = &c->step[index];

	switch (s->operation) {
	case XEN_PROBE_OP_MULTICALL:
		s->code = multicall(c, index + 1, s->count);
		return 1 + s->count;
	case XEN_PROBE_OP_MACHINE_TO_PHYS:
		s->value = machine_to_phys_mapping[c->frame[c->request[s->first].frame[0]]];
		return 1;
	case XEN_PROBE_OP_LOAD:
	case XEN_PROBE_OP_STORE:
	case XEN_PROBE_OP_XCHG:
	case XEN_PROBE_OP_CMPXCHG:
		instruct(c, s);
		return 1;
	default:
		s->code = single(c, index);
		return 1;
	}
}

static bool is_call(u32 operation)
{
	return operation >= XEN_PROBE_OP_MMU_UPDATE && operation <= XEN_PROBE_OP_UPDATE_VA_OTHER;
}

static bool is_instruction(u32 operation)
{
	return operation >= XEN_PROBE_OP_LOAD && operation <= XEN_PROBE_OP_CMPXCHG;
}

static bool step_ok(const struct xen_probe_case *c, u32 index)
{
	const struct xen_probe_step *s = &c->step[index];
	u32 i;

	if (s->first > c->requests || s->requests > c->requests - s->first)
		return false;
	if (s->operation == XEN_PROBE_OP_MULTICALL) {
		for (i = 1; i <= s->count; i++)
			if (index + i >= c->steps || !is_call(c->step[index + i].operation))
				return false;
		return true;
	}
	if (s->operation == XEN_PROBE_OP_MMU_UPDATE || s->operation == XEN_PROBE_OP_MMUEXT)
		return true;
	if (!s->requests)
		return false;
	if (is_instruction(s->operation))
		return c->request[s->first].frame[0] < c->pages && c->request[s->first].bits[0] <= PAGE_SIZE - 8 &&
		       (s->count == 8 || s->count == 4);
	if (s->operation == XEN_PROBE_OP_MACHINE_TO_PHYS)
		return c->request[s->first].frame[0] < c->pages;
	return is_call(s->operation);
}

static bool case_ok(const struct xen_probe_case *c)
{
	u32 i;

	if (c->pages > XEN_PROBE_PAGES || c->steps > XEN_PROBE_STEPS || c->requests > XEN_PROBE_REQUESTS)
		return false;
	for (i = 0; i < c->steps; i++)
		if (!step_ok(c, i))
			return false;
	return true;
}

static void unpin(unsigned long mfn)
{
	struct mmuext_op op = { .cmd = MMUEXT_UNPIN_TABLE, .arg1.mfn = mfn };

	/* Xen refuses it for a page that is not pinned. */
	(void)HYPERVISOR_mmuext_op(&op, 1, NULL, DOMID_SELF);
}

/* Maps a page writable again and restores its M2P entry; false when Xen refuses, as for a page that is still a table. */
static bool reclaim(unsigned long page)
{
	unsigned long mfn = virt_to_mfn((void *)page);
	struct mmu_update request = {
		.ptr = ((u64)mfn << PAGE_SHIFT) | MMU_MACHPHYS_UPDATE,
		.val = __pa(page) >> PAGE_SHIFT,
	};

	if (HYPERVISOR_update_va_mapping(page, mfn_pte(mfn, PAGE_KERNEL), UVMF_INVLPG | UVMF_ALL))
		return false;
	return !HYPERVISOR_mmu_update(&request, 1, NULL, DOMID_SELF);
}

static void give_back(struct xen_probe_case *c)
{
	u32 i;

	for (i = 0; i < c->pages; i++)
		unpin(c->frame[i]);
	for (i = 0; i < c->pages; i++) {
		if (reclaim(work.page[i]))
			free_page(work.page[i]);
		else
			c->unclean++;
	}
}

static bool take_pages(struct xen_probe_case *c)
{
	u32 i;

	for (i = 0; i < c->pages; i++) {
		work.page[i] = get_zeroed_page(GFP_KERNEL);
		if (!work.page[i])
			break;
	}
	if (i == c->pages)
		return true;
	while (i--)
		free_page(work.page[i]);
	return false;
}

int conformance_run(struct xen_probe_case *c)
{
	u32 i;

	if (!case_ok(c))
		return -EINVAL;
	c->unclean = 0;
	if (!take_pages(c))
		return -ENOMEM;
	/* An alias that vmalloc has not unmapped yet would count as a writable mapping. */
	vm_unmap_aliases();
	name_frames(c);
	for (i = 0; i < c->steps; i += run_step(c, i))
		;
	give_back(c);
	return 0;
}

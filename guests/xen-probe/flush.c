// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB flushes by mmuext_op, and loading the base pointer of the page tables as at a context switch. What Xen does to
 * flush (CR4.PGE twice, or CR3 once) is its own affair: the same calls are made under each of its settings.
 */
#include <linux/compiler.h>
#include <linux/sched.h>

#include <asm/xen/page.h>

#include "probe.h"

/* One call each, as xen_flush_tlb() and its like make them (Linux 6.1, arch/x86/xen/mmu_pv.c). */
static void run(struct repeat *r, unsigned int count, struct mmuext_op op)
{
	unsigned int i;

	stretch_begin(r);
	for (i = 0; i < count; i++)
		r->req->refused += HYPERVISOR_mmuext_op(&op, 1, NULL, DOMID_SELF) != 0;
	stretch_end(r);
}

static void flush_local(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_TLB_FLUSH_LOCAL });
}

static void flush_all(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_TLB_FLUSH_ALL });
}

static void invlpg_local(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_INVLPG_LOCAL, .arg1.linear_addr = PAGE_SIZE });
}

/* Another table would have to be a process's; Xen loads the one that is in use again like any other (new_guest_cr3). */
static void new_baseptr(struct repeat *r, unsigned int count)
{
	unsigned long mfn = virt_to_mfn(current->mm->pgd);

	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_NEW_BASEPTR, .arg1.mfn = mfn });
}

#define OPERATION(number, function) [number - XEN_PROBE_REPEAT_FLUSH_LOCAL] = { .run = function, .chunk = 1024 }

static const struct repeated operations[] = {
	OPERATION(XEN_PROBE_REPEAT_FLUSH_LOCAL, flush_local),
	OPERATION(XEN_PROBE_REPEAT_FLUSH_ALL, flush_all),
	OPERATION(XEN_PROBE_REPEAT_INVLPG_LOCAL, invlpg_local),
	OPERATION(XEN_PROBE_REPEAT_NEW_BASEPTR, new_baseptr),
};

const struct repeated *flush_find(u32 operation)
{
	u32 index = operation - XEN_PROBE_REPEAT_FLUSH_LOCAL;

	return index < ARRAY_SIZE(operations) ? &operations[index] : NULL;
}

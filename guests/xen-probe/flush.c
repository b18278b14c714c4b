// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB flushes by mmuext_op, and loading the base pointer of the page tables as at a context switch. The calls are the
 * same whether Xen flushes by CR4.PGE or by CR3.
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

void flush_local(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_TLB_FLUSH_LOCAL });
}

void flush_all(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_TLB_FLUSH_ALL });
}

void flush_invlpg_local(struct repeat *r, unsigned int count)
{
	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_INVLPG_LOCAL, .arg1.linear_addr = PAGE_SIZE });
}

/* The table in use, which Xen loads again like any other (new_guest_cr3()). */
void flush_new_baseptr(struct repeat *r, unsigned int count)
{
	unsigned long mfn = virt_to_mfn(current->mm->pgd);

	run(r, count, (struct mmuext_op){ .cmd = MMUEXT_NEW_BASEPTR, .arg1.mfn = mfn });
}

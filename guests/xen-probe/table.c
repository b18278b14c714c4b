// SPDX-License-Identifier: GPL-2.0-only
/*
 * One page table of the caller's mm: found, locked, read, written back, checked.
 *
 * Entries are written by mmu_update only: Xen would emulate a plain store. The frames behind the entries stay where they
 * are: the caller holds mmap_lock for writing, and the guest has no swap.
 */
#include <linux/errno.h>
#include <linux/pgtable.h>
#include <linux/uaccess.h>

#include <asm/xen/hypercall.h>
#include <asm/xen/page.h>

#include "probe.h"

/* Finds the table that maps addr. -ENXIO: there is none, or a large page is mapped there. */
int table_find(struct table *t, struct mm_struct *mm, unsigned long addr, unsigned int count)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd))
		return -ENXIO;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return -ENXIO;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud))
		return -ENXIO;
	pmd = pmd_offset(pud, addr);
	if (pmd_none(*pmd) || pmd_leaf(*pmd))
		return -ENXIO;
	t->addr = addr;
	t->count = count;
	t->entries = pte_offset_kernel(pmd, addr);
	t->lock = pte_lockptr(mm, pmd);
	t->refused = 0;
	return 0;
}

void table_lock(struct table *t)
{
	spin_lock_irqsave(t->lock, t->irq_flags);
}

void table_unlock(struct table *t)
{
	spin_unlock_irqrestore(t->lock, t->irq_flags);
}

void table_snapshot(struct table *t)
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		t->before[i] = READ_ONCE(t->entries[i]);
}

/* Writes all entries, flags and A and D included; returns the number of refused hypercalls. */
u64 table_write(struct table *t, const pte_t *values)
{
	u64 machine = arbitrary_virt_to_machine(t->entries).maddr;
	unsigned int i;

	for (i = 0; i < t->count; i++) {
		t->request[i].ptr = (machine + i * sizeof(pte_t)) | MMU_NORMAL_PT_UPDATE;
		t->request[i].val = values[i].pte;
	}
	return HYPERVISOR_mmu_update(t->request, t->count, NULL, DOMID_SELF) != 0;
}

/* Puts every entry back as the snapshot has it; returns the number of refused hypercalls. */
u64 table_restore(struct table *t)
{
	return table_write(t, t->before);
}

/* Every vCPU that may run this guest forgets its translations. */
void table_flush_tlb_all(void)
{
	struct mmuext_op op = { .cmd = MMUEXT_TLB_FLUSH_ALL };

	HYPERVISOR_mmuext_op(&op, 1, NULL, DOMID_SELF);
}

/* Clears `bits` of every `every`-th entry beginning with `first`. */
static void clear_bits(struct table *t, pteval_t bits, unsigned int first, unsigned int every)
{
	unsigned int i;

	table_snapshot(t);
	for (i = first; i < t->count; i += every)
		t->before[i].pte &= ~bits;
	t->refused += table_restore(t);
	table_flush_tlb_all();
}

/*
 * Gives entry i class i mod 4, A and D set by the CPU: neither bit, A by a read, A and D by a write, D by a write whose
 * A is cleared again. Leaves the snapshot that has them.
 *
 * The caller holds the lock, with interrupts off, from here until the mechanism has run: page ageing (reclaim, DAMON)
 * clears A of pages that it samples.
 */
void table_make_classes(struct table *t)
{
	unsigned int i;

	clear_bits(t, _PAGE_ACCESSED | _PAGE_DIRTY, 0, 1);
	pagefault_disable();
	for (i = 0; i < t->count; i++) {
		u32 __user *word = (u32 __user *)(t->addr + i * PAGE_SIZE);
		u32 value;

		/* An access that fails leaves the entry in another class, which is counted. */
		if (i % 4 == 1)
			(void)__get_user(value, word);
		else if (i % 4 >= 2)
			(void)__put_user(i, word);
	}
	pagefault_enable();
	clear_bits(t, _PAGE_ACCESSED, 3, 4);
	table_snapshot(t);
}

static void check_entry(pte_t expected, pte_t returned, pte_t left, struct xen_probe_faults *faults)
{
	const pteval_t bits = _PAGE_ACCESSED | _PAGE_DIRTY;
	pteval_t lost = expected.pte & ~returned.pte & bits;
	pteval_t invented = returned.pte & ~expected.pte & bits;
	pteval_t other = (expected.pte ^ returned.pte) & ~bits;

	faults->lost_accessed += !!(lost & _PAGE_ACCESSED);
	faults->lost_dirty += !!(lost & _PAGE_DIRTY);
	faults->wrong_frame += !!(other & PTE_PFN_MASK);
	faults->wrong_flags += !!(other & ~PTE_PFN_MASK) || invented;
	faults->not_none += !pte_none(left);
}

/* Compares what was returned, and what was left, with what the entries held when they were cleared. */
void table_check(const struct table *t, const pte_t *expected, struct xen_probe_faults *faults)
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		check_entry(expected[i], t->returned[i], READ_ONCE(t->entries[i]), faults);
}

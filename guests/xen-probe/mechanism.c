// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ways to get and clear page-table entries that the PV ABI offers, and two baselines.
 *
 * Every function returns the old entries in t->returned and touches nothing else of the table. Those that read first
 * and clear afterwards can miss an A or D bit that another CPU sets in between: that is what the race looks for.
 */
#include <linux/pgtable.h>

#include <asm/xen/hypercall.h>
#include <asm/xen/page.h>
#include <xen/features.h>

#include "probe.h"

#ifndef HAVE_LAZY_MMU_MODE_ENABLE
#define lazy_mmu_mode_enable arch_enter_lazy_mmu_mode
#define lazy_mmu_mode_disable arch_leave_lazy_mmu_mode
#endif

static void clear_read(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++)
		t->returned[i] = READ_ONCE(t->entries[i]);
}

static void clear_empty_hypercall(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++) {
		t->returned[i] = READ_ONCE(t->entries[i]);
		HYPERVISOR_xen_version(0, NULL);
	}
}

/* As native_ptep_get_and_clear() on SMP: the exchange traps, Xen emulates it (ptwr). */
static void clear_emulate(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++)
		t->returned[i] = native_make_pte(xchg(&t->entries[i].pte, 0));
}

/* As the generic ptep_get_and_clear(): read, then the set_pte PV operation, one hypercall each. */
static void clear_set_pte(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++) {
		t->returned[i] = READ_ONCE(t->entries[i]);
		set_pte(&t->entries[i], __pte(0));
	}
}

static void clear_update_va(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++) {
		t->returned[i] = READ_ONCE(t->entries[i]);
		if (HYPERVISOR_update_va_mapping(t->addr + i * PAGE_SIZE, __pte(0), UVMF_NONE))
			t->refused++;
	}
}

/* The set_pte PV operation in lazy MMU mode: the kernel gathers the updates and sends them as it sees fit. */
static void clear_lazy(struct table *t, unsigned int first, unsigned int count)
{
	unsigned int i;

	lazy_mmu_mode_enable();
	for (i = first; i < first + count; i++) {
		t->returned[i] = READ_ONCE(t->entries[i]);
		set_pte(&t->entries[i], __pte(0));
	}
	lazy_mmu_mode_disable();
}

static void read_and_request(struct table *t, unsigned int first, unsigned int count, u64 command)
{
	u64 machine = arbitrary_virt_to_machine(&t->entries[first]).maddr | command;
	unsigned int i;

	for (i = 0; i < count; i++) {
		t->returned[first + i] = READ_ONCE(t->entries[first + i]);
		t->request[i].ptr = machine + i * sizeof(pte_t);
		t->request[i].val = 0;
	}
	if (HYPERVISOR_mmu_update(t->request, count, NULL, DOMID_SELF))
		t->refused++;
}

static void clear_mmu_update(struct table *t, unsigned int first, unsigned int count)
{
	read_and_request(t, first, count, MMU_NORMAL_PT_UPDATE);
}

/*
 * Xen stores 0 | (old & (A|D)) by a compare-and-exchange loop (xen/arch/x86/mm.c, UPDATE_ENTRY with preserve_ad).
 * The entry is then not present, so no page walk changes it any more, and pte_none() ignores A and D: what is
 * left behind is read at leisure. Frame and other flags cannot change under the page-table lock.
 */
static void clear_preserve_ad(struct table *t, unsigned int first, unsigned int count)
{
	const pteval_t bits = _PAGE_ACCESSED | _PAGE_DIRTY;
	unsigned int i;

	read_and_request(t, first, count, MMU_PT_UPDATE_PRESERVE_AD);
	for (i = first; i < first + count; i++)
		t->returned[i].pte |= READ_ONCE(t->entries[i].pte) & bits;
}

#define ANY_XEN (-1)

static const struct {
	clear_batch clear;
	int feature;
} mechanisms[] = {
#define MECHANISM(number, name, function, needed) { function, needed },
	XEN_PROBE_EACH_MECHANISM(MECHANISM)
#undef MECHANISM
};

clear_batch mechanism_find(u32 mechanism)
{
	return mechanism < XEN_PROBE_MECHANISMS ? mechanisms[mechanism].clear : NULL;
}

bool mechanism_is_baseline(u32 mechanism)
{
	return mechanism == XEN_PROBE_READ || mechanism == XEN_PROBE_EMPTY_HYPERCALL;
}

bool mechanism_supported(u32 mechanism)
{
	int feature = mechanisms[mechanism].feature;

	return feature == ANY_XEN || xen_feature(feature);
}

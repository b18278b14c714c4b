// SPDX-License-Identifier: GPL-2.0-only
/*
 * Layout at boot: Xen's xen/arch/x86/pv/dom0_build.c, 4.17. All four L2 tables are present, what Xen has mapped ends on a
 * 4 MiB boundary, and the list of frames has a 32-bit word for each.
 */
#include "memory.h"

#include "freestanding/console.h"
#include "freestanding/string.h"

#define TABLE_SPAN (ENTRIES * PAGE_SIZE)
#define L3_SLOT_SPAN 0x40000000u
#define ADDRESS_MASK 0x000ffffffffff000ull
#define TABLE_FLAGS (PTE_PRESENT | PTE_WRITABLE | PTE_USER | PTE_ACCESSED | PTE_DIRTY)
#define INVALID_FRAME 0xffffffffu
/* After the tables: the boot stack and what Xen leaves free. */
#define BOOT_SLACK 0x800000u
#define BOOT_ALIGN 0x400000u

static const uint32_t *frames;
static uint32_t next_frame, end_frame;
/* The machine addresses of the four L2 tables, and of the L1 tables below the first three. */
static uint64_t l2[4], l1[3][ENTRIES];
static uint64_t pages[MOST_PAGES];
static uint8_t scratch[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

static void update(uint64_t place, uint64_t entry, uint32_t domain)
{
	struct mmu_update request = { .ptr = place | MMU_NORMAL_PT_UPDATE, .val = entry };

	must("set an entry", xen_mmu_update(&request, 1, domain));
}

void memory_init(const struct start_info *info)
{
	const uint64_t *l3 = (const uint64_t *)info->pt_base;
	uint32_t end = info->pt_base - VIRT_BASE + info->nr_pt_frames * PAGE_SIZE + BOOT_SLACK;

	frames = (const uint32_t *)info->mfn_list;
	next_frame = (end & -BOOT_ALIGN) / PAGE_SIZE;
	end_frame = info->nr_pages;
	for (unsigned int i = 0; i < 4; i++)
		l2[i] = l3[i] & ADDRESS_MASK;
}

static uint64_t frame_allocate(void)
{
	while (next_frame < end_frame) {
		uint32_t frame = frames[next_frame++];

		if (frame != INVALID_FRAME)
			return (uint64_t)frame * PAGE_SIZE;
	}
	fail_with("find a free frame", ENOMEM);
}

/* Through a page of the kernel, which maps that frame meanwhile. */
static void clear_frame(uint64_t machine)
{
	uint32_t here = (uint32_t)scratch;
	uint64_t own = (uint64_t)frames[(here - VIRT_BASE) / PAGE_SIZE] * PAGE_SIZE;

	must("map a frame", xen_update_va_mapping(here, machine | TABLE_FLAGS, UVMF_INVLPG_LOCAL));
	memset(scratch, 0, PAGE_SIZE);
	must("map a page back", xen_update_va_mapping(here, own | TABLE_FLAGS, UVMF_INVLPG_LOCAL));
}

/* The L1 table for an address of the first three gigabytes. */
static uint64_t l1_for(uint32_t address)
{
	unsigned int l3_slot = address / L3_SLOT_SPAN, slot = address % L3_SLOT_SPAN / TABLE_SPAN;
	uint64_t *known = &l1[l3_slot][slot];

	if (!*known) {
		*known = frame_allocate();
		clear_frame(*known);
		update(l2[l3_slot] + slot * sizeof(uint64_t), *known | TABLE_FLAGS, DOMID_SELF);
	}
	return *known;
}

void map_frame(uint32_t address, uint64_t entry, uint32_t domain)
{
	uint64_t table = l1_for(address);

	update(table + address % TABLE_SPAN / PAGE_SIZE * sizeof(uint64_t), entry, domain);
}

/* Also mapped writable elsewhere, so that a mapping under test never changes the page's type, only its count. */
uint64_t page_machine(unsigned int page)
{
	if (!pages[page]) {
		pages[page] = frame_allocate();
		map_frame(DIRECT_BASE + page * PAGE_SIZE, pages[page] | TABLE_FLAGS, DOMID_SELF);
	}
	return pages[page];
}

struct table table_of(unsigned int index, unsigned int count)
{
	uint32_t address = TESTED_BASE + index * TABLE_SPAN;
	uint32_t here = TABLES_BASE + index * PAGE_SIZE;
	int is_new = !l1[address / L3_SLOT_SPAN][index];
	uint64_t machine = l1_for(address);

	if (is_new)
		map_frame(here, machine | PTE_PRESENT | PTE_ACCESSED, DOMID_SELF);
	return (struct table){ (volatile union entry *)here, machine, address, count };
}

void table_fill(const struct table *table, const uint64_t *values)
{
	static struct mmu_update requests[ENTRIES];

	for (unsigned int i = 0; i < table->count; i++) {
		requests[i].ptr = (table->machine + i * sizeof(uint64_t)) | MMU_NORMAL_PT_UPDATE;
		requests[i].val = values[i];
	}
	must("fill a table", xen_mmu_update(requests, table->count, DOMID_SELF));
	flush_tlb();
}

void flush_tlb(void)
{
	struct mmuext_op operation = { .cmd = MMUEXT_TLB_FLUSH_LOCAL };

	must("flush the TLB", hypercall4(HYPERVISOR_MMUEXT_OP, (uint32_t)&operation, 1, 0, DOMID_SELF));
}

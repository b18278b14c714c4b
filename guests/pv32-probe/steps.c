// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets and clears entries table by table: each table is prepared, the mechanism is timed over all of its entries, and the
 * result is compared with what was expected.
 *
 * Page i has class i mod 4 as in guests/xen-probe: neither bit, A by a read, A and D by a write, D alone by a write
 * whose A is cleared again.
 */
#include "steps.h"

#include "../lib/clock.h"
#include "../lib/results.h"
#include "freestanding/console.h"
#include "mechanism.h"

#define ACCESSED_DIRTY (PTE_ACCESSED | PTE_DIRTY)
/* What a program's anonymous pages are mapped with: vm_page_prot of a private writable mapping. */
#define USER_PAGE (PTE_PRESENT | PTE_WRITABLE | PTE_USER | PTE_NO_EXECUTE)

struct faults {
	uint64_t accessed, dirty, frame, flags, not_none;
};

static struct work work;

static uint64_t class_bits(unsigned int page)
{
	static const uint64_t classes[4] = { 0, PTE_ACCESSED, ACCESSED_DIRTY, PTE_DIRTY };

	return classes[page % 4];
}

static uint64_t half(uint64_t value, unsigned int halves)
{
	uint64_t mask = (halves & LOW_HALF ? 0xffffffffull : 0) | (halves & HIGH_HALF ? 0xffffffffull << 32 : 0);

	return value & mask;
}

static void mark(uint32_t base, uint32_t id)
{
	if (id != NO_MARK)
		hypercall2(HYPERVISOR_SCHED_OP, base + id, 0);
}

static void compare(uint64_t expected, uint64_t found, struct faults *faults)
{
	uint64_t lost = expected & ~found, differ = expected ^ found;
	const uint64_t flags = 0xfff | PTE_NO_EXECUTE;

	faults->accessed += !!(lost & PTE_ACCESSED);
	faults->dirty += !!(lost & PTE_DIRTY);
	faults->flags += !!(differ & flags & ~ACCESSED_DIRTY);
	faults->frame += !!(differ & ~flags);
}

/* The table for pages from `first` on, and the values wanted in it. */
static void take_table(unsigned int first, unsigned int all)
{
	unsigned int count = all - first < ENTRIES ? all - first : ENTRIES;

	work.table = table_of(first / ENTRIES, count);
	for (unsigned int i = 0; i < count; i++)
		work.wanted[i] = page_machine(first + i) | USER_PAGE | class_bits(first + i);
}

static void prepare_halves(unsigned int halves)
{
	static uint64_t values[ENTRIES];

	for (unsigned int i = 0; i < work.table.count; i++)
		values[i] = half(work.wanted[i], halves);
	table_fill(&work.table, values);
}

static uint64_t set_table(const struct setting *setting, uint32_t id, struct faults *faults)
{
	uint64_t start, end;

	prepare_halves(setting->before);
	mark(MARK_BEGIN, id);
	start = ticks();
	setting->run(&work);
	end = ticks();
	mark(MARK_END, id);
	for (unsigned int i = 0; i < work.table.count; i++)
		compare(half(work.wanted[i], setting->before | setting->stores), work.table.entries[i].whole, faults);
	prepare_halves(0);
	return end - start;
}

void step_set(const char *operation, const char *mechanism, struct step step)
{
	const struct setting *setting = setting_find(operation, mechanism);
	struct faults faults = { 0 };
	uint64_t instructions = 0;

	if (!setting || step.pages > MOST_PAGES)
		fail_with(mechanism, EINVAL);
	work.refused = 0;
	for (unsigned int first = 0; first < step.pages; first += ENTRIES) {
		take_table(first, step.pages);
		instructions += set_table(setting, step.mark, &faults);
	}
	report(SET_RESULT, operation, mechanism, step.pages, (int)step.mark, instructions, faults.frame, faults.flags,
	       faults.accessed + faults.dirty, (uint64_t)work.refused);
}

/* By accesses, as of a program: the CPU sets the bits. */
static void touch(unsigned int first)
{
	static uint64_t aged[ENTRIES];

	for (unsigned int i = 0; i < work.table.count; i++)
		aged[i] = work.wanted[i] & ~ACCESSED_DIRTY;
	table_fill(&work.table, aged);
	for (unsigned int i = 0; i < work.table.count; i++) {
		volatile uint32_t *page = (volatile uint32_t *)(work.table.address + i * PAGE_SIZE);

		if ((first + i) % 4 == 1)
			(void)*page;
		else if ((first + i) % 4 > 1)
			*page = i;
	}
	for (unsigned int i = 0; i < work.table.count; i++)
		aged[i] = work.table.entries[i].whole & ((first + i) % 4 == 3 ? ~PTE_ACCESSED : ~0ull);
	table_fill(&work.table, aged);
}

static void count_classes(uint64_t classes[4])
{
	for (unsigned int i = 0; i < work.table.count; i++) {
		uint64_t entry = work.table.entries[i].whole;

		classes[!!(entry & PTE_ACCESSED) + 2 * !!(entry & PTE_DIRTY)]++;
	}
}

static uint64_t clear_table(const struct clearing *clearing, uint32_t batch, uint32_t id)
{
	uint64_t start, end;

	mark(MARK_BEGIN, id);
	start = ticks();
	for (unsigned int first = 0; first < work.table.count; first += batch) {
		unsigned int rest = work.table.count - first;

		clearing->run(&work, first, rest < batch ? rest : batch);
	}
	end = ticks();
	mark(MARK_END, id);
	return end - start;
}

static void check_cleared(const struct clearing *clearing, struct faults *faults)
{
	for (unsigned int i = 0; i < work.table.count; i++) {
		uint64_t left = work.table.entries[i].whole & ~ACCESSED_DIRTY;

		compare(work.wanted[i], work.returned[i], faults);
		faults->not_none += left != (half(work.wanted[i], clearing->leaves) & ~ACCESSED_DIRTY);
	}
	prepare_halves(0);
}

void step_clear(const char *mechanism, uint32_t batch, struct step step)
{
	const struct clearing *clearing = clearing_find(mechanism);
	uint64_t classes[4] = { 0 };
	struct faults faults = { 0 };
	uint64_t instructions = 0;

	if (!clearing || step.pages > MOST_PAGES || !batch || batch > ENTRIES)
		fail_with(mechanism, EINVAL);
	work.refused = 0;
	for (unsigned int first = 0; first < step.pages; first += ENTRIES) {
		take_table(first, step.pages);
		touch(first);
		count_classes(classes);
		instructions += clear_table(clearing, batch, step.mark);
		check_cleared(clearing, &faults);
	}
	report(CLEAR_RESULT, mechanism, batch, step.pages, (int)step.mark, instructions, classes[0], classes[1], classes[2],
	       classes[3], faults.accessed, faults.dirty, faults.frame, faults.flags, faults.not_none,
	       (uint64_t)work.refused);
}

// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "exercise.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/page.h"
#include "../lib/marks.h"
#include "abi/kvm_abi.h"

static const struct mechanism mechanisms[] = {
	{ "populated", .is_populated = true },
	{ "uffd" },
	{ "exit-on-missing", ABI_MEM_EXIT_ON_MISSING },
	{ "exit-prefault", ABI_MEM_EXIT_ON_MISSING, .prefaults = true },
	{ "exit-bitmap", ABI_MEM_USERFAULT, .is_marked = true },
};

const struct mechanism *mechanism_find(const char *name)
{
	return find_named(mechanisms, name);
}

#ifdef __aarch64__
/* KVM of arm64 maps nothing ahead, with whatever else. */
static bool lacks_prefaults(const struct mechanism *mechanism)
{
	if (mechanism->prefaults)
		report("{\"kind\":\"demand-unavailable\",\"mechanism\":\"%s\",\"capability\":%d}", mechanism->name,
		       ABI_CAP_PRE_FAULT_MEMORY);
	return mechanism->prefaults;
}
#else
static bool lacks_prefaults(const struct mechanism *mechanism)
{
	(void)mechanism;
	return false;
}
#endif

bool mechanism_is_unavailable(const struct mechanism *mechanism)
{
	struct machine machine;
	bool can;

	if (!mechanism->flags)
		return false;
	machine = machine_open();
	can = mechanism->is_marked ? machine_can_exit_on_marked(&machine) : machine_can_exit_on_missing(&machine);
	machine_close(&machine);
	if (!can)
		report("{\"kind\":\"demand-unavailable\",\"mechanism\":\"%s\",\"capability\":%d}", mechanism->name,
		       mechanism->is_marked ? ABI_CAP_USERFAULT : ABI_CAP_EXIT_ON_MISSING);
	return !can || lacks_prefaults(mechanism);
}

uint64_t missing_page(const struct machine *machine)
{
	/* `hw` is the first member of the union that memory_fault is in. */
	const struct abi_memory_fault *fault = (const void *)&machine->run->hw;

	return (fault->gpa - AREA_GPA) / PAGE;
}

static uint64_t switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

uint64_t wrong_pages(const struct pager *pager)
{
	uint64_t wrong = 0;

	for (uint64_t page = 0; page < pager->pages; page++) {
		const uint32_t *words = (const void *)(pager->area + page * PAGE);
		int is_wrong = words[0] != pager_first_word(page) || words[1] != (uint32_t)(pager->pages - page);

		for (size_t i = 2; i < PAGE / sizeof(words[0]); i++)
			is_wrong |= words[i] != PAGER_FILL;
		wrong += is_wrong;
	}
	return wrong;
}

uint32_t expected_sum(uint64_t pages)
{
	uint32_t sum = 0;

	for (uint64_t page = 0; page < pages; page++)
		sum += pager_first_word(page);
	return sum;
}

void populate(struct pager *pager, uint64_t page)
{
	int error = EEXIST;

	if (page < pager->pages && pager->marks)
		pager_fill(pager, page);
	else if (page < pager->pages)
		error = pager_copy(pager, page, DONT_WAKE);
	if (error && error != EEXIST)
		fail_with("UFFDIO_COPY", error);
}

/*
 * Populates from the page on that an exit named. The guest touches one page after the other, so the next batch is
 * expected; if another was named, the guest's registers decide which page it is at.
 */
static void resolve(const struct machine *machine, struct pager *pager, struct counts *counts)
{
	uint64_t page = missing_page(machine), expected = counts->missing++ * pager->batch, start = ticks();

	populate(pager, page);
	counts->copying += ticks() - start;
	if (page == expected)
		return;
	expected = machine_touching(machine);
	counts->misnamed += page != expected;
	populate(pager, expected);
}

/* Maps what was populated for the last exit. */
static void prefault(struct machine *machine, struct pager *pager, struct counts *counts)
{
	uint64_t page = missing_page(machine), start = ticks();

	if (page < pager->pages)
		machine_prefault(machine, page, pager_batch_at(pager, page));
	counts->prefaulting += ticks() - start;
}

static void run_to_end(const struct mechanism *mechanism, struct machine *machine, struct pager *pager,
		       struct counts *counts)
{
	for (;;) {
		switch (machine_run(machine)) {
		case STOP_END:
			return;
		case STOP_INTERRUPTED:
			break;
		case STOP_MISSING:
			/* More exits than pages: no progress. */
			if (counts->missing > 2 * pager->pages) {
				counts->wrong = pager->pages;
				return;
			}
			resolve(machine, pager, counts);
			if (mechanism->prefaults)
				prefault(machine, pager, counts);
			break;
		default:
			fail("run the guest");
		}
	}
}

static void measure(const struct mechanism *mechanism, struct machine *machine, struct pager *pager,
		    struct counts *counts)
{
	uint64_t switched = switches(), exits = machine_exits(machine), start;

	machine_load(machine, PROGRAM_TOUCH, AREA_GPA, pager->pages);
	MARK_NOP(MARK_STEP);
	MARK_NOP(MARK_BEGIN);
	start = ticks();
	run_to_end(mechanism, machine, pager, counts);
	counts->instructions = ticks() - start;
	MARK_NOP(MARK_END);
	counts->exits = machine_exits(machine) - exits;
	counts->switches = switches() - switched;
	counts->entries = machine->entries;
	counts->faults = pager->faults;
}

struct counts exercise(const struct mechanism *mechanism, uint32_t batch, uint32_t pages)
{
	struct counts counts = { .pages = pages };
	struct machine machine = machine_open();
	struct pager pager;
	int error;

	pager_open(&pager, batch, pages);
	if (mechanism->is_populated)
		pager_populate(&pager);
	if (mechanism->is_marked)
		pager_mark_all(&pager);
	else
		pager_start_reader(&pager);
	error = machine_attach_marked(&machine, pager.area, pages, mechanism->flags, pager.marks);
	if (error)
		fail_with("set the memslot of the area", error);
	measure(mechanism, &machine, &pager, &counts);
	counts.wrong += wrong_pages(&pager) + (machine_sum(&machine) != expected_sum(pages));
	machine_close(&machine);
	pager_close(&pager);
	return counts;
}

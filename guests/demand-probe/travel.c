// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "travel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../init/clock.h"
#include "../init/report.h"
#include "kvm_abi.h"

static const struct mechanism mechanisms[] = {
	{ "populated", 0, true },
	{ "uffd", 0, false },
	{ "exit-on-missing", ABI_MEM_EXIT_ON_MISSING, false },
};

const struct mechanism *mechanism_find(const char *name)
{
	for (size_t i = 0; i < sizeof(mechanisms) / sizeof(mechanisms[0]); i++)
		if (!strcmp(mechanisms[i].name, name))
			return &mechanisms[i];
	return NULL;
}

bool mechanism_is_unavailable(const struct mechanism *mechanism)
{
	struct machine machine;
	bool can;

	if (!(mechanism->flags & ABI_MEM_EXIT_ON_MISSING))
		return false;
	machine = machine_open();
	can = machine_can_exit_on_missing(&machine);
	machine_close(&machine);
	if (!can)
		report("{\"kind\":\"demand-unavailable\",\"mechanism\":\"%s\",\"capability\":%d}", mechanism->name,
		       ABI_CAP_EXIT_ON_MISSING);
	return !can;
}

uint64_t missing_page(const struct machine *machine)
{
	/* The first member of the union that memory_fault is another member of. */
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

/* What the guest must have added up. */
static uint32_t expected_sum(uint64_t pages)
{
	uint32_t sum = 0;

	for (uint64_t page = 0; page < pages; page++)
		sum += pager_first_word(page);
	return sum;
}

static void bring(struct pager *pager, uint64_t page)
{
	errno = page < pager->pages ? pager_bring(pager, page, DONT_WAKE) : EEXIST;
	if (errno && errno != EEXIST)
		fail("UFFDIO_COPY");
}

/*
 * Brings in the page that an exit named. The guest goes from page to page, so that it is known which that has to be;
 * where it is another, the guest's registers tell which was meant.
 */
static void resolve(const struct machine *machine, struct pager *pager, struct travelled *travelled)
{
	uint64_t page = missing_page(machine), expected = travelled->missing++, start = ticks();

	bring(pager, page);
	travelled->copying += ticks() - start;
	if (page == expected)
		return;
	expected = machine_touching(machine);
	travelled->misnamed += page != expected;
	bring(pager, expected);
}

static void run_to_end(struct machine *machine, struct pager *pager, struct travelled *travelled)
{
	for (;;) {
		switch (machine_run(machine)) {
		case STOP_END:
			return;
		case STOP_INTERRUPTED:
			break;
		case STOP_MISSING:
			/* More exits than pages: it gets nowhere. */
			if (travelled->missing > 2 * pager->pages) {
				travelled->wrong = pager->pages;
				return;
			}
			resolve(machine, pager, travelled);
			break;
		default:
			fail("run the guest");
		}
	}
}

static void count(struct machine *machine, struct pager *pager, struct travelled *travelled)
{
	uint64_t switched = switches(), exits = machine_exits(machine), start;

	machine_load(machine, PROGRAM_TOUCH, AREA_GPA, pager->pages);
	start = ticks();
	run_to_end(machine, pager, travelled);
	travelled->instructions = ticks() - start;
	travelled->exits = machine_exits(machine) - exits;
	travelled->switches = switches() - switched;
	travelled->entries = machine->entries;
	travelled->faults = pager->faults;
}

struct travelled travel(const struct mechanism *mechanism, uint64_t pages)
{
	struct travelled travelled = { .pages = pages };
	struct machine machine = machine_open();
	struct pager pager;

	pager_open(&pager, pages);
	if (mechanism->is_populated)
		pager_populate(&pager);
	pager_start_reader(&pager);
	errno = machine_attach(&machine, pager.area, pages, mechanism->flags);
	if (errno)
		fail("show the area to the guest");
	count(&machine, &pager, &travelled);
	travelled.wrong += wrong_pages(&pager) + (machine_sum(&machine) != expected_sum(pages));
	machine_close(&machine);
	pager_close(&pager);
	return travelled;
}

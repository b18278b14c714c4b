// SPDX-License-Identifier: GPL-2.0-only
#include "trial.h"

#include <sys/mman.h>

#include "../demand-probe/mapping/mapping.h"
#include "../lib/clock.h"
#include "../lib/linux/fail.h"

/* Reads words of the list: all of it is mapped for the guest, and the vCPU has run. */
static void read_list(struct trial *trial, uint32_t words)
{
	machine_load(&trial->machine, PROGRAM_HASH, LIST_GPA, words);
	trial_run(trial);
}

const char *trial_open(struct trial *trial, const struct subject *subject)
{
	*trial = (struct trial){ .mechanism = mechanism_find(subject->mechanism), .machine = machine_open() };
	image_open(&trial->image, subject->pages);
	visits_open(&trial->visits, subject->pages);
	reader_open(&trial->reader, &trial->image, trial->mechanism->is_hugetlb ? PAGES_2M : subject->batch);
	trial->at = reserve(subject->pages, &trial->reserved);
	machine_attach_list(&trial->machine, trial->visits.list, visits_list_pages(&trial->visits));
	read_list(trial, subject->pages);
	return trial->mechanism->lacks ? trial->mechanism->lacks(trial) : NULL;
}

void trial_close(struct trial *trial)
{
	machine_close(&trial->machine);
	if (trial->reader.second)
		munmap(trial->reader.second, trial->image.pages * PAGE);
	unreserve(trial->reserved, trial->image.pages);
	reader_close(&trial->reader);
	visits_close(&trial->visits);
	image_close(&trial->image);
	if (trial->mechanism->is_hugetlb)
		set_hugetlb_pool(0);
}

void trial_restore(struct trial *trial)
{
	const struct mechanism *mechanism = trial->mechanism;
	int error;

	mechanism->place(trial);
	if (mechanism->prepare)
		mechanism->prepare(trial);
	error = machine_attach(&trial->machine, trial->at, trial->image.pages, 0);
	if (error)
		fail_with("set the memslot of the memory", error);
	if (mechanism->ahead)
		mechanism->ahead(trial);
	read_list(trial, 1);
}

void trial_aim(struct trial *trial, uint64_t first, uint64_t count)
{
	machine_load(&trial->machine, PROGRAM_VISIT, LIST_GPA + first * sizeof(trial->visits.list[0]), count);
}

/* The vCPU's own thread populates the page that its registers name. */
static void resolve(struct trial *trial)
{
	uint64_t start = ticks(), page = machine_visiting(&trial->machine);

	trial->finding += ticks() - start;
	if (page >= trial->image.pages || trial->reader.is_present[page])
		fail("find the page of an exit");
	reader_populate(&trial->reader, page);
}

void trial_run(struct trial *trial)
{
	for (;;) {
		switch (machine_run(&trial->machine)) {
		case STOP_END:
			return;
		case STOP_INTERRUPTED:
			break;
		case STOP_MISSING:
		case STOP_FAULT:
			resolve(trial);
			break;
		default:
			fail("run the guest");
		}
	}
}

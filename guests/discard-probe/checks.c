// SPDX-License-Identifier: GPL-2.0-only
/* Controls of a bill: discards that are misplaced, memory that is held, and the cost of clearing it. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/mman.h>

#include "../lib/clock.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/tick/tick.h"
#include "steps.h"
#include "trial.h"

static void spoil(const struct trial *trial)
{
	uint64_t chunk = trial->subject->chunk;

	for (uint64_t page = 0; page < trial->subject->pages; page += 2 * chunk)
		memory_set_words(&trial->memory, page, chunk, WORD_SPOILT);
}

static void misplace(const struct subject *subject, bool is_spoilt)
{
	uint32_t sum_beside;
	struct trial trial;

	if (!trial_open(&trial, subject))
		return;
	trial_discard_chunks(&trial, BESIDE, chunks(subject));
	if (is_spoilt)
		spoil(&trial);
	trial_touch(&trial, PROGRAM_READ_CHUNKS, BESIDE);
	sum_beside = machine_sum(&trial.machine);
	trial_touch(&trial, PROGRAM_TOUCH_CHUNKS, DISCARDED);
	begin_report("discard-misplaced", subject);
	report_more(",\"pages\":%u,\"is_spoilt\":%s,\"sum_beside\":%u,\"sum_again\":%u", half(subject),
		    is_spoilt ? "true" : "false", sum_beside, machine_sum(&trial.machine));
	end_report();
	trial_close(&trial);
}

void step_misplace(const struct subject *subject)
{
	misplace(subject, false);
}

void step_misplace_and_spoil(const struct subject *subject)
{
	misplace(subject, true);
}

void step_hold(const struct subject *subject)
{
	uint64_t held[3];
	struct trial trial;

	if (!trial_open_unwritten(&trial, subject))
		return;
	held[0] = memory_held(&trial.memory).own;
	if (madvise(trial.memory.at, subject->pages * PAGE, MADV_NORMAL) < 0)
		fail("madvise(MADV_NORMAL)");
	held[1] = memory_held(&trial.memory).own;
	trial_discard(&trial, 0, subject->pages);
	held[2] = memory_held(&trial.memory).own;
	begin_report("discard-held", subject);
	report_more(",\"own\":[%lu,%lu,%lu]", held[0], held[1], held[2]);
	end_report();
	trial_close(&trial);
}

/* clear_page of arch/x86/lib/clear_page_64.S, and of arch/arm64/lib/clear_page.S for blocks of 64 bytes. */
static void clear(char *page)
{
#ifdef __aarch64__
	for (char *end = page + PAGE; page < end; page += 64)
		__asm__ volatile("dc zva, %0" : : "r"(page) : "memory");
#else
	unsigned long words = PAGE / 8;

	__asm__ volatile("rep stosq" : "+D"(page), "+c"(words) : "a"(0ul) : "memory");
#endif
}

void step_clear(uint32_t pages)
{
	uint64_t start, taken;
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		fail("map pages to clear");
	await_tick();
	start = ticks();
	for (uint32_t page = 0; page < pages; page++)
		clear(at + page * PAGE);
	taken = ticks() - start;
	munmap(at, pages * PAGE);
	report("{\"kind\":\"discard-clearing\",\"pages\":%u,\"instructions\":%lu}", pages, taken);
}

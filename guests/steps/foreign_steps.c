// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a privileged domain pays per page of another domain's memory: mapped in batches, and unmapped, as the sender of a
 * migration does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/linux/check.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"
#include "../lib/linux/page.h"
#include "domain.h"
#include "privcmd.h"
#include "steps.h"

/* Of the first page of the other domain; page i holds it plus i. */
#define FIRST_WORD 0x70616765746f6c6cull
/* Mappings of so many pages begin anywhere in a page table, and most go on in the next. */
#define ODD_BATCH 509
/* How long Xen may take to free what is left of a domain. */
#define VANISH_MS 10000

static struct domain other;
/* It existed before: its memory is its own and changes. */
static bool is_of_host;

/* What map-foreign leaves for munmap-foreign; none where batch is 0. */
static struct {
	void **addresses;
	uint32_t batch;
	uint32_t pages;
} mapped;

static uint32_t pages_at(uint32_t first)
{
	uint32_t left = mapped.pages - first;

	return left < mapped.batch ? left : mapped.batch;
}

static void map_all(void)
{
	for (uint32_t first = 0; first < mapped.pages; first += mapped.batch)
		mapped.addresses[first / mapped.batch] =
			privcmd_map(other.id, other.frames + first, pages_at(first), PROT_READ);
}

static void unmap_all(void)
{
	for (uint32_t first = 0; first < mapped.pages; first += mapped.batch)
		if (munmap(mapped.addresses[first / mapped.batch], pages_at(first) * PAGE) < 0)
			fail("munmap");
}

static uint64_t *map_words(uint32_t first, uint32_t pages)
{
	return privcmd_map(other.id, other.frames + first, pages, PROT_READ | PROT_WRITE);
}

/* Writes the word of each page from the domain's page `first` on, or returns how many pages hold another. */
static uint32_t each_word_of(uint64_t *words, uint32_t first, uint32_t pages, bool write)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < pages; i++) {
		uint64_t *word = words + i * (PAGE / sizeof(*words));

		if (write)
			*word = FIRST_WORD + first + i;
		else if (*word != FIRST_WORD + first + i)
			wrong++;
	}
	return wrong;
}

static uint32_t each_word(uint32_t pages, bool write)
{
	uint64_t *words = map_words(0, pages);
	uint32_t wrong = each_word_of(words, 0, pages, write);

	munmap(words, pages * PAGE);
	return wrong;
}

static void make_list(uint32_t batch, uint32_t pages)
{
	if (mapped.batch)
		fail_with("map-foreign: munmap-foreign has not followed the last", EINVAL);
	mapped.batch = batch;
	mapped.pages = pages;
	mapped.addresses = calloc(pages / batch + 1, sizeof(*mapped.addresses));
	if (!mapped.addresses)
		fail("allocate a list of mappings");
}

static void require_list(uint32_t batch, uint32_t pages)
{
	if (mapped.batch != batch || mapped.pages != pages)
		fail_with("munmap-foreign: map-foreign has mapped another batch", EINVAL);
}

/* Through the mappings themselves. */
static uint32_t count_wrong(void)
{
	uint32_t wrong = 0;

	for (uint32_t page = 0; page < mapped.pages && !is_of_host; page++) {
		const char *address = mapped.addresses[page / mapped.batch];
		const uint64_t *word = (const uint64_t *)(address + page % mapped.batch * PAGE);

		wrong += *word != FIRST_WORD + page;
	}
	return wrong;
}

static uint32_t forget_list(void)
{
	free(mapped.addresses);
	mapped.batch = 0;
	return 0;
}

static const struct operation {
	const char *name;
	void (*prepare)(uint32_t batch, uint32_t pages);
	void (*timed)(void);
	/* Returns how many pages hold another word. */
	uint32_t (*finish)(void);
	/* It has looked at each page. */
	bool checks;
} operations[] = {
	{ "map-foreign", make_list, map_all, count_wrong, true },
	{ "munmap-foreign", require_list, unmap_all, forget_list, false },
};

/* The other domain, with memory; false where this Xen makes none, which is reported. */
static bool prepare_domain(uint32_t pages)
{
	static long error = 1;

	if (is_of_host)
		return true;
	if (error > 0) {
		privcmd_open();
		error = domain_make(&other, false);
		if (error)
			report("{\"kind\":\"foreign-unavailable\",\"errno\":%ld}", -error);
	}
	if (error)
		return false;
	if (other.pages < pages) {
		domain_populate(&other, pages);
		each_word(pages, true);
	}
	return true;
}

void step_domain(uint32_t id, uint32_t pages)
{
	privcmd_open();
	domain_find(&other, id, pages);
	is_of_host = true;
}

void step_foreign_prepare(uint32_t pages)
{
	if (!prepare_domain(pages))
		fail_with("make another domain", EACCES);
}

void step_translated_domain(uint32_t pages)
{
	long error;

	privcmd_open();
	error = domain_make(&other, true);
	if (error)
		fail_with("make a domain with nested paging", -error);
	domain_populate(&other, pages);
}

void step_foreign(const char *name, uint32_t batch, uint32_t pages, uint32_t mark)
{
	const struct operation *operation = find_named(operations, name);
	uint64_t start, taken;

	if (!prepare_domain(pages))
		return;
	if (pages > other.pages)
		pages = other.pages;
	operation->prepare(batch, pages);
	await_start();
	mark_begin(mark);
	start = ticks();
	operation->timed();
	taken = ticks() - start;
	mark_end(mark);
	report("{\"kind\":\"foreign\",\"operation\":\"%s\",\"batch\":%u,\"pages\":%u,\"mark\":%d,\"instructions\":%llu,"
	       "\"checked\":%u,\"wrong\":%u}",
	       name, batch, pages, (int)mark, (unsigned long long)taken, operation->checks && !is_of_host ? pages : 0, operation->finish());
}

static bool vanishes(const struct domain *domain)
{
	for (int ms = 0; ms < VANISH_MS && domain_exists(domain); ms++)
		usleep(1000);
	return !domain_exists(domain);
}

/* A domain of which a page is mapped must outlive its end; one of which none is must not. */
void step_foreign_release(void)
{
	struct domain control;
	uint32_t pages = other.pages, wrong;
	void *page;
	bool kept;

	if (!pages)
		return;
	wrong = each_word(pages, false);
	if (domain_make(&control, false))
		fail("make another domain");
	domain_populate(&control, 1);
	page = privcmd_map(control.id, control.frames, 1, PROT_READ);
	domain_destroy(&control);
	kept = domain_exists(&control);
	munmap(page, PAGE);
	if (!vanishes(&control))
		fail_with("free a domain of which nothing is mapped", EBUSY);
	domain_destroy(&other);
	report("{\"kind\":\"foreign-released\",\"checked\":%u,\"wrong\":%u,\"left\":%u,\"control_left\":%u}", pages,
	       wrong, !vanishes(&other), kept);
}

/*
 * The addresses stay taken, without pages: so the page tables stay, and with them each entry that was not cleared, which
 * keeps the other domain.
 */
struct finding check_foreign(uint32_t pages)
{
	struct finding finding = { .tried = pages + 1 };

	step_foreign_prepare(pages);
	for (uint32_t first = 0; first < pages; first += ODD_BATCH) {
		uint32_t batch = pages - first < ODD_BATCH ? pages - first : ODD_BATCH;
		uint64_t *words = map_words(first, batch);

		finding.failed += each_word_of(words, first, batch, false);
		munmap(words, batch * PAGE);
		if (mmap(words, batch * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != words)
			fail("keep the addresses");
	}
	domain_destroy(&other);
	finding.failed += !vanishes(&other);
	return finding;
}

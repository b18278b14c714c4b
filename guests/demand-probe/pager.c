// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "pager.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"
#include "../lib/linux/process.h"

#define PAGE_WORDS (PAGE / sizeof(uint32_t))
/* A page table's worth. */
#define MOST_BATCH 512

/* The source of a batch; pages differ in the first word only. */
typedef uint32_t (*source_t)[PAGE_WORDS];

/* One for each thread that copies. */
static __thread source_t source;

static source_t make_source(void)
{
	source_t made = mmap(NULL, MOST_BATCH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		fail("map the source of pages");
	for (size_t page = 0; page < MOST_BATCH; page++)
		for (size_t word = 0; word < PAGE_WORDS; word++)
			made[page][word] = PAGER_FILL;
	return made;
}

static void ensure_source(void)
{
	if (!source)
		source = make_source();
}

uint32_t pager_first_word(uint64_t page)
{
	return 0x10000000u + (uint32_t)page * 3;
}

static void register_area(struct pager *pager)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)pager->area, pager->pages * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	pager->uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (pager->uffd < 0 || ioctl(pager->uffd, UFFDIO_API, &api) < 0)
		fail("open a userfaultfd");
	if (ioctl(pager->uffd, UFFDIO_REGISTER, &range) < 0)
		fail("UFFDIO_REGISTER");
}

void pager_open(struct pager *pager, uint64_t batch, uint64_t pages)
{
	size_t size = pages * PAGE;

	if (batch < 1 || batch > MOST_BATCH)
		fail_with("the size of a batch", EINVAL);
	*pager = (struct pager){ .pages = pages, .batch = batch };
	pager->area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Without CONFIG_TRANSPARENT_HUGEPAGE it is EINVAL, and pages are small anyway. */
	if (pager->area == MAP_FAILED || (madvise(pager->area, size, MADV_NOHUGEPAGE) < 0 && errno != EINVAL))
		fail("map the area");
	register_area(pager);
	ensure_source();
}

void pager_close(struct pager *pager)
{
	if (pager->is_reading) {
		pthread_cancel(pager->reader);
		pthread_join(pager->reader, NULL);
		munmap(pager->source_of_reader, MOST_BATCH * PAGE);
	}
	close(pager->uffd);
	free(pager->marks);
	munmap(pager->area, pager->pages * PAGE);
}

/*
 * A vCPU's thread was faster, and its copy wakes no thread; a copy that fails with EEXIST does not either. Without this
 * the thread that sleeps in the fault would never wake.
 */
static void wake(struct pager *pager, uint64_t page)
{
	struct uffdio_range range = { (uintptr_t)pager->area + page * PAGE, PAGE };

	if (ioctl(pager->uffd, UFFDIO_WAKE, &range) < 0)
		fail("UFFDIO_WAKE");
}

/* A blocking read and a copy for each page: no reader costs less. */
static void *read_faults(void *argument)
{
	struct pager *pager = argument;
	struct uffd_msg message;
	int error;

	source = pager->source_of_reader;
	for (;;) {
		if (read(pager->uffd, &message, sizeof(message)) != sizeof(message))
			fail("read the userfaultfd");
		pager->last = (message.arg.pagefault.address - (uintptr_t)pager->area) / PAGE;
		__atomic_add_fetch(&pager->faults, 1, __ATOMIC_SEQ_CST);
		error = pager_copy(pager, pager->last, WAKE);
		if (error == EEXIST)
			wake(pager, pager->last);
		else if (error)
			fail_with("UFFDIO_COPY", error);
	}
}

void pager_start_reader(struct pager *pager)
{
	pager->source_of_reader = make_source();
	pager->reader = start_thread(read_faults, pager);
	pager->is_reading = true;
}

uint64_t pager_batch_at(const struct pager *pager, uint64_t page)
{
	uint64_t left = pager->pages - page;

	return pager->batch < left ? pager->batch : left;
}

int pager_copy(struct pager *pager, uint64_t page, enum wake wake)
{
	uint64_t batch = pager_batch_at(pager, page);
	struct uffdio_copy copy = {
		.dst = (uintptr_t)pager->area + page * PAGE, .len = batch * PAGE,
		.mode = wake == WAKE ? 0 : UFFDIO_COPY_MODE_DONTWAKE,
	};

	ensure_source();
	for (uint64_t i = 0; i < batch; i++)
		source[i][0] = pager_first_word(page + i);
	copy.src = (uintptr_t)source;
	if (ioctl(pager->uffd, UFFDIO_COPY, &copy) == 0)
		return 0;
	/* Some were populated: EAGAIN, and so many bytes. */
	return copy.copy > 0 ? 0 : errno;
}

void pager_mark_all(struct pager *pager)
{
	struct uffdio_range range = { (uintptr_t)pager->area, pager->pages * PAGE };
	size_t size = (pager->pages + 63) / 64 * sizeof(*pager->marks);

	if (ioctl(pager->uffd, UFFDIO_UNREGISTER, &range) < 0)
		fail("UFFDIO_UNREGISTER");
	pager->marks = malloc(size);
	if (!pager->marks)
		fail("allocate the marks of pages");
	memset(pager->marks, 0xff, size);
}

void pager_fill(struct pager *pager, uint64_t page)
{
	uint64_t end = page + pager_batch_at(pager, page);

	ensure_source();
	for (uint64_t i = 0; page < end; i++, page++) {
		source[i][0] = pager_first_word(page);
		memcpy(pager->area + page * PAGE, source[i], PAGE);
		/* Only then may another vCPU find it. */
		__atomic_fetch_and(&pager->marks[page / 64], ~(1ull << page % 64), __ATOMIC_RELEASE);
	}
}

void pager_populate(struct pager *pager)
{
	for (uint64_t page = 0; page < pager->pages; page += pager->batch) {
		int error = pager_copy(pager, page, DONT_WAKE);

		if (error)
			fail_with("populate the area", error);
	}
}

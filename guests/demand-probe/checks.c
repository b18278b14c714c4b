// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of KVM, by what user space and the guest see. Of any kernel:
 *
 *   small-contents  the guest reads and writes every page correctly, where the host has small pages
 *   huge-mapped     and where it has huge ones, which are mapped at once; also after one page of each has gone
 *   dirty-log       pages that the guest writes are dirty, and no other
 *   copy-on-write   what the guest writes does not reach a process that shares the pages
 *   discard-race    another thread takes pages away, and puts them back, as the guest comes to them; needs two CPUs
 *
 * Of one that has KVM_PRE_FAULT_MEMORY, called for all of the area:
 *
 *   prefault-contents       the guest reads and writes every page correctly, also those that the host did not have
 *   prefault-exits          and does not leave for any that the host had
 *   prefault-huge           huge pages are mapped as such, also where tables of small ones are in their place
 *   prefault-copy-on-write  what the guest writes does not reach a process that shares the pages
 *   prefault-race           another thread takes pages away, and puts them back, meanwhile; needs two CPUs
 *
 * Of a kernel that can leave a guest at a page that a bitmap marks:
 *
 *   bitmap-contents      the guest reads and writes every page correctly, and each exit names the page that is marked
 *   bitmap-rules         which bitmaps and flags are rejected
 *   bitmap-exits-once    a page costs one exit
 *   bitmap-still-marked  where the guest goes on and the page is not written, it exits again, and names the page
 *
 * Of a kernel that can leave a guest at a missing page:
 *
 *   contents      the guest reads and writes every page correctly
 *   never-sleeps  no fault of the guest goes through the userfaultfd
 *   exit-address  each exit names the page that is missing
 *   exit-flags    and distinguishes reads, writes and fetches
 *   present       pages that are present but not writable, and pages that another thread populated first
 *   exits-once    a page costs one exit
 *   still-missing where the guest goes on and the page has not come, it exits again, and names the page
 *   dropped       pages that the host drops are missing again
 *   outside       accesses by system calls, and by KVM for the guest, still go through the userfaultfd
 *   rules         which flags combine, and which may be changed
 *   race          another thread touches the same pages at the same time, and takes them away as in discard-race
 *   flag-absent   without the flag nothing changes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/linux/check.h"
#include "../lib/linux/fail.h"
#include "../lib/linux/page.h"
#include "../lib/linux/process.h"
#include "exercise.h"
#include "abi/kvm_abi.h"
#include "steps.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE (2ul << 20)
#define PAGES_OF_HUGE (HUGE / PAGE)
/* Exits for other reasons than the area: the code's page, the end of the program, interrupts. */
#define MOST_OTHER_EXITS 64

/* Pages that KVM may map by one fault. */
#define PREFETCHED 8u
/* Missing exits of a page at most, where another thread reads it and where it is taken away again and again. */
#define MOST_EXITS_BESIDE_READS 2u
#define MOST_EXITS_BESIDE_DISCARDS 64u
/* Addresses that no user space has. */
#define KERNEL_SPACE 0xffff800000000000ul

/* A machine on an area of missing pages, and a reader. */
struct bench {
	struct machine machine;
	struct pager pager;
};

static void bench_open(struct bench *bench, uint32_t pages, const char *name)
{
	const struct mechanism *mechanism = mechanism_find(name);
	int error;

	bench->machine = machine_open();
	pager_open(&bench->pager, 1, pages);
	if (mechanism->is_marked)
		pager_mark_all(&bench->pager);
	else
		pager_start_reader(&bench->pager);
	error = machine_attach_marked(&bench->machine, bench->pager.area, pages, mechanism->flags,
				      bench->pager.marks);
	if (error)
		fail_with("set the memslot of the area", error);
}

static void bench_close(struct bench *bench)
{
	machine_close(&bench->machine);
	pager_close(&bench->pager);
}

/* Sets the memslot of an area, without flags. */
static void attach(struct machine *machine, void *area, uint32_t pages)
{
	int error = machine_attach(machine, area, pages, 0);

	if (error)
		fail_with("set the memslot of the area", error);
}

/* Runs the guest until it stops for a reason of its own. */
static enum stop run_machine(struct machine *machine)
{
	enum stop stop;

	do
		stop = machine_run(machine);
	while (stop == STOP_INTERRUPTED);
	return stop;
}

static enum stop run(struct bench *bench)
{
	return run_machine(&bench->machine);
}

static enum stop start(struct bench *bench, enum program program, uint64_t page)
{
	machine_load(&bench->machine, program, AREA_GPA + page * PAGE, 1);
	return run(bench);
}

/* Tried: each page, and the sum that the guest read. */
static struct finding check_contents(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("exit-on-missing"), 1, pages);

	return (struct finding){ pages + 1, counts.wrong };
}

static struct finding check_never_sleeps(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("exit-on-missing"), 1, pages);

	return (struct finding){ pages, counts.faults };
}

/* Tried: each exit, and their number. */
static struct finding check_exit_address(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("exit-on-missing"), 1, pages);

	return (struct finding){ pages + 1, counts.misnamed + (counts.missing != pages) };
}

/* Tried: each page, and that all of them went through the userfaultfd. */
static struct finding check_flag_absent(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("uffd"), 1, pages);

	return (struct finding){ pages + 1, counts.missing + (counts.wrong || counts.faults != pages) };
}

static struct finding check_exit_flags(uint32_t pages)
{
	static const struct {
		enum program program;
		uint64_t flags;
	} cases[] = {
		{ PROGRAM_READ, ABI_FAULT_READ }, { PROGRAM_TOUCH, ABI_FAULT_WRITE }, { PROGRAM_JUMP, ABI_FAULT_EXEC },
	};
	struct finding finding = { 0 };
	struct bench bench;

	bench_open(&bench, pages, "exit-on-missing");
	for (uint64_t page = 0; page < pages; page++) {
		size_t i = page % (sizeof(cases) / sizeof(cases[0]));
		const struct abi_memory_fault *fault = (const void *)&bench.machine.run->hw;
		enum stop stop = start(&bench, cases[i].program, page);

		finding.tried++;
		finding.failed += stop != STOP_MISSING || fault->flags != cases[i].flags || fault->size != PAGE;
	}
	bench_close(&bench);
	return finding;
}

/* Maps the zero page, which is not writable. */
static void map_zeroes(struct pager *pager, uint64_t page)
{
	struct uffdio_zeropage zero = {
		.range = { (uintptr_t)pager->area + page * PAGE, PAGE }, .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
	};

	if (ioctl(pager->uffd, UFFDIO_ZEROPAGE, &zero) < 0)
		fail("UFFDIO_ZEROPAGE");
}

/*
 * Even pages are present but not writable: an exit, EEXIST from the copy, and MADV_POPULATE_WRITE lets the guest continue.
 * Odd ones are populated by the reader between exit and copy: EEXIST, and their contents stay.
 */
static bool present_fails(struct bench *bench, uint64_t page)
{
	volatile uint32_t *words = (void *)(bench->pager.area + page * PAGE);
	bool zeroes = page % 2 == 0;

	if (zeroes)
		map_zeroes(&bench->pager, page);
	if (start(bench, PROGRAM_TOUCH, page) != STOP_MISSING || missing_page(&bench->machine) != page)
		return true;
	if (!zeroes && words[0] != pager_first_word(page))
		return true;
	if (pager_copy(&bench->pager, page, DONT_WAKE) != EEXIST)
		return true;
	if (zeroes && madvise((void *)words, PAGE, MADV_POPULATE_WRITE) < 0)
		fail("MADV_POPULATE_WRITE");
	if (run(bench) != STOP_END)
		return true;
	return words[0] != (zeroes ? 0 : pager_first_word(page)) || words[1] != 1;
}

static struct finding check_present(uint32_t pages)
{
	struct finding finding = { pages, 0 };
	struct bench bench;

	bench_open(&bench, pages, "exit-on-missing");
	for (uint64_t page = 0; page < pages; page++)
		finding.failed += present_fails(&bench, page);
	bench_close(&bench);
	return finding;
}

static bool touch_fails(struct bench *bench, uint64_t page)
{
	if (start(bench, PROGRAM_TOUCH, page) != STOP_MISSING || missing_page(&bench->machine) != page)
		return true;
	if (bench->pager.marks)
		pager_fill(&bench->pager, page);
	else if (pager_copy(&bench->pager, page, DONT_WAKE))
		return true;
	return run(bench) != STOP_END || machine_sum(&bench->machine) != pager_first_word(page);
}

static struct finding check_dropped(uint32_t pages)
{
	struct finding finding = { pages, 0 };
	struct bench bench;

	bench_open(&bench, pages, "exit-on-missing");
	for (uint64_t page = 0; page < pages; page++) {
		bool failed = touch_fails(&bench, page);

		if (madvise(bench.pager.area + page * PAGE, PAGE, MADV_DONTNEED) < 0)
			fail("MADV_DONTNEED");
		finding.failed += failed || touch_fails(&bench, page);
	}
	bench_close(&bench);
	return finding;
}

/* Tried: each page, for which the guest leaves once. */
static struct finding exits_once(const char *mechanism, uint32_t pages)
{
	struct counts counts = exercise(mechanism_find(mechanism), 1, pages);
	uint64_t more = counts.exits > pages ? counts.exits - pages : 0;

	return (struct finding){ pages, more > MOST_OTHER_EXITS ? (more < pages ? more : pages) : 0 };
}

static struct finding check_exits_once(uint32_t pages)
{
	return exits_once("exit-on-missing", pages);
}

/* Tried: each page, which comes after the guest went on in vain. */
static struct finding goes_on_in_vain(const char *mechanism, uint32_t pages)
{
	struct finding finding = { pages, 0 };
	struct bench bench;

	bench_open(&bench, pages, mechanism);
	for (uint64_t page = 0; page < pages; page++) {
		bool failed = start(&bench, PROGRAM_TOUCH, page) != STOP_MISSING;

		failed |= run(&bench) != STOP_MISSING || missing_page(&bench.machine) != page;
		finding.failed += failed || touch_fails(&bench, page);
	}
	bench_close(&bench);
	return finding;
}

static struct finding check_still_missing(uint32_t pages)
{
	return goes_on_in_vain("exit-on-missing", pages);
}

/* A system call copies from a missing page. */
static bool system_call_fails(struct bench *bench, uint64_t page)
{
	uint32_t got = 0;
	int ends[2];
	bool failed;

	if (pipe(ends) < 0)
		fail("pipe");
	failed = write(ends[1], bench->pager.area + page * PAGE, sizeof(got)) != sizeof(got)
		|| read(ends[0], &got, sizeof(got)) != sizeof(got) || got != pager_first_word(page);
	close(ends[0]);
	close(ends[1]);
	return failed;
}

#ifdef __aarch64__
/*
 * KVM adds the vCPU's stolen time to a word of a missing page when it enters the guest: no instruction makes it read memory.
 * A vCPU is told its page once, so each page has a machine of its own.
 */
static bool emulation_fails(struct bench *bench, uint64_t page)
{
	struct bench other = { machine_open(), bench->pager };
	uint64_t gpa = AREA_GPA + page * PAGE;
	struct kvm_device_attr stolen_time = {
		.group = KVM_ARM_VCPU_PVTIME_CTRL, .attr = KVM_ARM_VCPU_PVTIME_IPA, .addr = (uintptr_t)&gpa,
	};
	bool failed;

	if (machine_attach(&other.machine, other.pager.area, other.pager.pages, ABI_MEM_EXIT_ON_MISSING))
		fail("attach the area to another machine");
	if (ioctl(other.machine.vcpu, KVM_SET_DEVICE_ATTR, &stolen_time) < 0)
		fail("tell a vCPU where its stolen time is");
	failed = start(&other, PROGRAM_OUT_ANSWERED, page) != STOP_END;
	machine_close(&other.machine);
	return failed;
}
#else
/* KVM reads a missing page to emulate an instruction. */
static bool emulation_fails(struct bench *bench, uint64_t page)
{
	const struct kvm_run *machine = bench->machine.run;

	if (start(bench, PROGRAM_OUTS, page) != STOP_PORT)
		return true;
	if (*((const uint8_t *)machine + machine->io.data_offset) != (uint8_t)pager_first_word(page))
		return true;
	return run(bench) != STOP_END;
}
#endif

static struct finding check_outside(uint32_t pages)
{
	struct finding finding = { pages, 0 };
	struct bench bench;

	bench_open(&bench, pages, "exit-on-missing");
	for (uint64_t page = 0; page < pages; page++) {
		bool failed = page % 2 ? system_call_fails(&bench, page) : emulation_fails(&bench, page);

		finding.failed += failed || bench.pager.faults != page + 1 || bench.pager.last != page;
	}
	bench_close(&bench);
	return finding;
}

/* Reads every page, each through the userfaultfd where it is the first to need counts. */
static void *read_all(void *argument)
{
	struct pager *pager = argument;

	for (uint64_t page = 0; page < pager->pages; page++)
		(void)*(volatile uint32_t *)(pager->area + page * PAGE);
	return NULL;
}

/* Runs the guest to its end, and copies what it misses; false where it stops for another reason or exits more often a page. */
static bool copy_to_end(struct bench *bench, uint64_t most)
{
	enum stop stop;

	for (uint64_t exits = 0; (stop = run(bench)) == STOP_MISSING; exits++) {
		int error = pager_copy(&bench->pager, missing_page(&bench->machine), DONT_WAKE);

		if ((error && error != EEXIST) || exits > most * bench->pager.pages)
			return false;
	}
	return stop == STOP_END;
}

/* How many pages go wrong where another thread reads them while they are missing. */
static uint64_t touch_beside_reads(uint32_t pages)
{
	struct bench bench;
	uint64_t failed;
	pthread_t other;

	bench_open(&bench, pages, "exit-on-missing");
	other = start_thread(read_all, &bench.pager);
	machine_load(&bench.machine, PROGRAM_TOUCH, AREA_GPA, pages);
	failed = !copy_to_end(&bench, MOST_EXITS_BESIDE_READS);
	pthread_join(other, NULL);
	failed += wrong_pages(&bench.pager);
	bench_close(&bench);
	return failed;
}

/* A thread that takes pages away just before the guest comes to them. */
struct chase {
	struct pager *pager;
	bool is_over;
};

/*
 * The first page from `page` on that the guest has not touched, and none of so many that follow: those that were taken
 * away behind it look untouched again.
 */
static uint64_t frontier(const struct pager *pager, uint64_t page)
{
	uint64_t first = page;

	for (; page < pager->pages && page - first < 2 * PREFETCHED; page++) {
		const volatile uint32_t *words = (const void *)(pager->area + page * PAGE);

		if (words[1] != PAGER_FILL)
			first = page + 1;
	}
	return first;
}

/* Takes pages away, and puts them back. */
static void refill(struct pager *pager, uint64_t page, uint64_t end)
{
	if (page >= end)
		return;
	if (madvise(pager->area + page * PAGE, (end - page) * PAGE, MADV_DONTNEED) < 0)
		fail("MADV_DONTNEED");
	for (; page < end; page++)
		populate(pager, page);
}

/* In every second turn the page that the guest comes to next is spared, so that only what is mapped with it goes. */
static void *chase(void *argument)
{
	struct chase *chase = argument;
	struct pager *pager = chase->pager;
	uint64_t page = 0;

	for (uint64_t turn = 0; !__atomic_load_n(&chase->is_over, __ATOMIC_ACQUIRE); turn++) {
		uint64_t end;

		page = frontier(pager, page);
		end = page + PREFETCHED < pager->pages ? page + PREFETCHED : pager->pages;
		refill(pager, page + turn % 2, end);
	}
	return NULL;
}

/*
 * How many pages go wrong where they are taken away as the guest comes to them. It touches all of them again once that is
 * over: what it writes through a mapping that is stale, the host does not see.
 */
static uint64_t touch_beside_discards(uint32_t pages, const char *mechanism)
{
	struct bench bench;
	struct chase other = { &bench.pager, false };
	uint64_t failed;
	pthread_t thread;

	bench_open(&bench, pages, mechanism);
	pager_populate(&bench.pager);
	thread = start_thread(chase, &other);
	machine_load(&bench.machine, PROGRAM_TOUCH, AREA_GPA, pages);
	failed = !copy_to_end(&bench, MOST_EXITS_BESIDE_DISCARDS);
	__atomic_store_n(&other.is_over, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	machine_load(&bench.machine, PROGRAM_TOUCH, AREA_GPA, pages);
	failed += !copy_to_end(&bench, MOST_EXITS_BESIDE_READS) || machine_sum(&bench.machine) != expected_sum(pages);
	failed += wrong_pages(&bench.pager);
	bench_close(&bench);
	return failed;
}

static struct finding check_race(uint32_t pages)
{
	return (struct finding){
		2 * pages, touch_beside_reads(pages) + touch_beside_discards(pages, "exit-on-missing"),
	};
}

static struct finding check_discard_race(uint32_t pages)
{
	return (struct finding){ pages, touch_beside_discards(pages, "uffd") };
}

/* Whether a new machine rejects a slot with these flags. */
static bool is_refused(void *area, uint32_t flags)
{
	struct machine machine = machine_open();
	int error = machine_attach(&machine, area, 1, flags);

	machine_close(&machine);
	return error == EINVAL;
}

/* Whether a new machine accepts a slot of a guest_memfd, and rejects one that is to exit as well. */
static bool memfd_is_refused(void *area)
{
	struct machine machine = machine_open();
	int file = machine_make_guest_memfd(&machine, 1);
	bool refused = machine_attach_guest_memfd(&machine, area, 1, file, ABI_MEM_EXIT_ON_MISSING) == EINVAL;

	refused &= machine_attach_guest_memfd(&machine, area, 1, file, 0) == 0;
	machine_close(&machine);
	close(file);
	return refused;
}

/* The flag is cleared and set again while the guest uses the slot: pages that are present stay. */
static uint64_t change_fails(struct bench *bench)
{
	uint64_t failed = touch_fails(bench, 0);

	failed += machine_attach(&bench->machine, bench->pager.area, bench->pager.pages, 0) != 0;
	failed += start(bench, PROGRAM_TOUCH, 1) != STOP_END || bench->pager.faults != 1;
	failed += machine_attach(&bench->machine, bench->pager.area, bench->pager.pages, ABI_MEM_EXIT_ON_MISSING) != 0;
	failed += start(bench, PROGRAM_TOUCH, 1) != STOP_END;
	return failed + touch_fails(bench, 2);
}

static struct finding check_rules(uint32_t pages)
{
	struct finding finding = { .tried = 9 };
	struct bench bench;

	bench_open(&bench, pages, "exit-on-missing");
	finding.failed += !is_refused(bench.pager.area, ABI_MEM_EXIT_ON_MISSING | ABI_MEM_READONLY);
	finding.failed += !memfd_is_refused(bench.pager.area);
	finding.failed += !is_refused(bench.pager.area, ABI_MEM_EXIT_ON_MISSING << 1);
	finding.failed += change_fails(&bench);
	bench_close(&bench);
	return finding;
}

/* Whether the kernel has transparent huge pages; one with PREEMPT_RT has none. */
static bool has_thp(void)
{
	return access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0;
}

/* Memory in huge pages, with the first word of each page. */
static char *huge_area(uint32_t pages)
{
	size_t size = pages * PAGE;
	char *whole = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *area = (char *)(((uintptr_t)whole + HUGE - 1) & ~(HUGE - 1));

	if (whole == MAP_FAILED)
		fail("map the area");
	for (uint64_t page = 0; page < pages; page++)
		*(uint32_t *)(area + page * PAGE) = pager_first_word(page);
	if (madvise(area, size, MADV_COLLAPSE) < 0)
		fail("MADV_COLLAPSE");
	return area;
}

/* Whether a touch of every page goes wrong; the first words of pages that were dropped are zero. */
static bool touch_all_fails(struct machine *machine, const char *area, uint32_t pages, uint64_t dropped)
{
	uint32_t sum = 0;
	bool failed;

	machine_load(machine, PROGRAM_TOUCH, AREA_GPA, pages);
	failed = run_machine(machine) != STOP_END;
	for (uint64_t page = 0; page < pages; page++) {
		const uint32_t *words = (const void *)(area + page * PAGE);
		uint32_t first = page % PAGES_OF_HUGE == dropped ? 0 : pager_first_word(page);

		failed |= words[0] != first || words[1] != (uint32_t)(pages - page);
		sum += first;
	}
	return failed || machine_sum(machine) != sum;
}

/* Takes one page of each huge page away. */
static void drop_sevenths(char *area, uint32_t pages)
{
	for (uint64_t page = 7; page < pages; page += PAGES_OF_HUGE)
		if (madvise(area + page * PAGE, PAGE, MADV_DONTNEED) < 0)
			fail("MADV_DONTNEED");
}

/* Tried: each page. The memory stays mapped: the guest ends soon. */
static struct finding check_huge_mapped(uint32_t pages)
{
	struct machine machine = machine_open();
	char *area = huge_area(pages);
	uint64_t exits, failed;

	attach(&machine, area, pages);
	exits = machine_exits(&machine);
	failed = touch_all_fails(&machine, area, pages, PAGES_OF_HUGE);
	exits = machine_exits(&machine) - exits;
	failed += exits > pages / PAGES_OF_HUGE + MOST_OTHER_EXITS ? exits : 0;
	drop_sevenths(area, pages);
	failed += touch_all_fails(&machine, area, pages, 7);
	machine_close(&machine);
	return (struct finding){ pages, failed };
}

/* Memory in small pages, with the first word of each page. */
static char *small_area(uint32_t pages)
{
	char *area = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || (madvise(area, pages * PAGE, MADV_NOHUGEPAGE) < 0 && has_thp()))
		fail("map the area");
	for (uint64_t page = 0; page < pages; page++)
		*(uint32_t *)(area + page * PAGE) = pager_first_word(page);
	return area;
}

/* Touches each eighth page from `first` on; how many went wrong. */
static uint64_t touch_eighths(struct machine *machine, uint32_t pages, uint64_t first)
{
	uint64_t failed = 0;

	for (uint64_t page = first; page < pages; page += 8) {
		machine_load(machine, PROGRAM_TOUCH, AREA_GPA + page * PAGE, 1);
		failed += run_machine(machine) != STOP_END || machine_sum(machine) != pager_first_word(page);
	}
	return failed;
}

/* Touches pairs of pages: the second of each follows one that was touched. */
static uint64_t touch_pairs(struct machine *machine, uint32_t pages, uint64_t first)
{
	return touch_eighths(machine, pages, first) + touch_eighths(machine, pages, first + 1);
}

/* Pages that the dirty log has wrong: the pairs from `first` on are dirty, and no other page. */
static uint64_t wrongly_logged(struct machine *machine, uint32_t pages, uint64_t first)
{
	uint64_t *log = calloc((pages + 63) / 64, sizeof(*log)), wrong = 0;

	machine_dirty_log(machine, log);
	for (uint64_t page = 0; page < pages; page++)
		wrong += (log[page / 64] >> page % 64 & 1) != (page % 8 / 2 == first / 2);
	free(log);
	return wrong;
}

/* With a log from the start, and with one that begins when some pages are mapped. */
static struct finding check_dirty_log(uint32_t pages)
{
	struct finding finding = { 2 * pages, 0 };

	for (int is_late = 0; is_late < 2; is_late++) {
		struct machine machine = machine_open();
		char *area = small_area(pages);
		int error = machine_attach(&machine, area, pages, is_late ? 0 : KVM_MEM_LOG_DIRTY_PAGES);

		if (is_late) {
			finding.failed += touch_pairs(&machine, pages, 0);
			error |= machine_attach(&machine, area, pages, KVM_MEM_LOG_DIRTY_PAGES);
		}
		if (error)
			fail("set the memslot of the area");
		finding.failed += touch_pairs(&machine, pages, 2) + wrongly_logged(&machine, pages, 2);
		machine_close(&machine);
		munmap(area, pages * PAGE);
	}
	return finding;
}

/* Waits until the pipe is closed; its status says whether any page has changed meanwhile. */
static pid_t start_sharer(const char *area, uint32_t pages, int until[2])
{
	pid_t child = fork();
	bool changed = false;
	char end;

	if (child < 0)
		fail("fork");
	if (child > 0)
		return child;
	close(until[1]);
	while (read(until[0], &end, 1) > 0)
		;
	for (uint64_t page = 0; page < pages; page++) {
		const uint32_t *words = (const void *)(area + page * PAGE);

		changed |= words[0] != pager_first_word(page) || words[1] != 0;
	}
	_exit(changed);
}

/* Tried: each page. */
static struct finding touch_shared(uint32_t pages, bool prefaults)
{
	struct machine machine = machine_open();
	struct finding finding = { pages, 0 };
	char *area = small_area(pages);
	int until[2], status;
	pid_t sharer;

	if (pipe(until) < 0)
		fail("pipe");
	attach(&machine, area, pages);
	sharer = start_sharer(area, pages, until);
	if (prefaults)
		machine_prefault(&machine, 0, pages);
	for (uint64_t first = 0; first < 8; first++)
		finding.failed += touch_eighths(&machine, pages, first);
	close(until[1]);
	if (waitpid(sharer, &status, 0) != sharer)
		fail("wait for the process that shares the pages");
	finding.failed += status != 0;
	close(until[0]);
	machine_close(&machine);
	munmap(area, pages * PAGE);
	return finding;
}

static struct finding check_copy_on_write(uint32_t pages)
{
	return touch_shared(pages, false);
}

static struct finding check_prefault_copy_on_write(uint32_t pages)
{
	return touch_shared(pages, true);
}

/* Tried: each page. The memory stays mapped, as in all that follow: the guest ends soon. */
static struct finding check_prefault_contents(uint32_t pages)
{
	struct machine machine = machine_open();
	char *area = small_area(pages);
	uint64_t failed;

	attach(&machine, area, pages);
	drop_sevenths(area, pages);
	machine_prefault(&machine, 0, pages);
	failed = touch_all_fails(&machine, area, pages, 7);
	machine_close(&machine);
	return (struct finding){ pages, failed };
}

/* Tried: each page; failed: exits. */
static struct finding check_prefault_exits(uint32_t pages)
{
	struct machine machine = machine_open();
	uint64_t exits, failed = 0;

	attach(&machine, small_area(pages), pages);
	machine_prefault(&machine, 0, pages);
	exits = machine_exits(&machine);
	machine_load(&machine, PROGRAM_TOUCH, AREA_GPA, pages);
	if (run_machine(&machine) != STOP_END)
		failed = pages;
	exits = machine_exits(&machine) - exits;
	machine_close(&machine);
	return (struct finding){ pages, exits > MOST_OTHER_EXITS ? exits : failed };
}

/* Tried: each huge page, every second of which was small when the guest touched it. */
static struct finding check_prefault_huge(uint32_t pages)
{
	struct finding finding = { pages / PAGES_OF_HUGE, 0 };
	struct machine machine = machine_open();
	char *area = huge_area(pages);
	uint64_t huge;

	attach(&machine, area, pages);
	drop_sevenths(area, pages);
	finding.failed += touch_all_fails(&machine, area, pages, 7);
	for (uint64_t page = PAGES_OF_HUGE; page < pages; page += 2 * PAGES_OF_HUGE)
		if (madvise(area + page * PAGE, HUGE, MADV_COLLAPSE) < 0)
			fail("MADV_COLLAPSE");
	machine_prefault(&machine, 0, pages);
	huge = machine_mapped_huge(&machine);
	finding.failed += huge < finding.tried / 2 ? finding.tried / 2 - huge : 0;
	machine_close(&machine);
	return finding;
}

/* A thread that takes the pages of a group away and puts them back, once for each number that `wanted` takes. */
struct refills {
	struct pager *pager;
	uint64_t wanted, done;
	bool is_over;
};

/* The group's first page is spared: what follows it is mapped with it. */
static void *refill_groups(void *argument)
{
	struct refills *refills = argument;

	while (!__atomic_load_n(&refills->is_over, __ATOMIC_ACQUIRE)) {
		uint64_t group = __atomic_load_n(&refills->wanted, __ATOMIC_ACQUIRE);

		if (group != refills->done) {
			refill(refills->pager, (group - 1) * PREFETCHED + 1, group * PREFETCHED);
			__atomic_store_n(&refills->done, group, __ATOMIC_RELEASE);
		}
		sched_yield();
	}
	return NULL;
}

/*
 * Tried: each page, from before it is taken away until it is back. The guest touches all when that is over: what it writes
 * through a mapping that is stale, the host does not see.
 */
static struct finding check_prefault_race(uint32_t pages)
{
	struct finding finding = { pages, 0 };
	struct bench bench;
	struct refills other = { &bench.pager };
	pthread_t thread;

	bench_open(&bench, pages, "uffd");
	pager_populate(&bench.pager);
	thread = start_thread(refill_groups, &other);
	for (uint64_t group = 1; group <= pages / PREFETCHED; group++) {
		__atomic_store_n(&other.wanted, group, __ATOMIC_RELEASE);
		do
			machine_prefault(&bench.machine, (group - 1) * PREFETCHED, PREFETCHED);
		while (__atomic_load_n(&other.done, __ATOMIC_ACQUIRE) != group);
	}
	__atomic_store_n(&other.is_over, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	machine_load(&bench.machine, PROGRAM_TOUCH, AREA_GPA, pages);
	finding.failed += run(&bench) != STOP_END || machine_sum(&bench.machine) != expected_sum(pages);
	finding.failed += wrong_pages(&bench.pager);
	bench_close(&bench);
	return finding;
}

/* Tried: each page, and the sum that the guest read. */
static struct finding check_small_contents(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("populated"), 1, pages);

	return (struct finding){ pages + 1, counts.wrong };
}

/* Tried: each page, the exit for it, and the sum that the guest read. */
static struct finding check_bitmap_contents(uint32_t pages)
{
	struct counts counts = exercise(mechanism_find("exit-bitmap"), 1, pages);

	return (struct finding){ 2 * pages + 1, counts.wrong + counts.misnamed };
}

static struct finding check_bitmap_exits_once(uint32_t pages)
{
	return exits_once("exit-bitmap", pages);
}

static struct finding check_bitmap_still_marked(uint32_t pages)
{
	return goes_on_in_vain("exit-bitmap", pages);
}

/* Tried: a change of each kind, and so many bitmaps that are no aligned memory of user space. */
static struct finding check_bitmap_rules(uint32_t pages)
{
	struct finding finding = { pages + 1, 0 };
	struct machine machine = machine_open();
	uint64_t marks[1] = { 0 };
	char *area = small_area(1);

	for (uint64_t i = 0; i < pages; i++) {
		const uint64_t *bad = (const void *)(i % 2 ? (uintptr_t)marks + 4 : KERNEL_SPACE + i * PAGE);

		finding.failed += machine_attach_marked(&machine, area, 1, ABI_MEM_USERFAULT, bad) != EINVAL;
	}
	finding.failed += machine_attach_marked(&machine, area, 1, ABI_MEM_USERFAULT, marks) != 0;
	finding.failed += machine_attach(&machine, area, 1, 0) != EINVAL;
	machine_close(&machine);
	munmap(area, PAGE);
	return finding;
}

/* A check, and what the kernel must have for it: a mechanism, and transparent huge pages. */
static const struct needing_check {
	struct check check;
	const char *mechanism;
	bool needs_thp;
} checks[] = {
	{ { "small-contents", check_small_contents }, "populated" },
	{ { "huge-mapped", check_huge_mapped }, "populated", .needs_thp = true },
	{ { "dirty-log", check_dirty_log }, "populated" },
	{ { "copy-on-write", check_copy_on_write }, "populated" },
	{ { "discard-race", check_discard_race }, "populated" },
	{ { "prefault-contents", check_prefault_contents }, "populated" },
	{ { "prefault-exits", check_prefault_exits }, "populated" },
	{ { "prefault-huge", check_prefault_huge }, "populated", .needs_thp = true },
	{ { "prefault-copy-on-write", check_prefault_copy_on_write }, "populated" },
	{ { "prefault-race", check_prefault_race }, "populated" },
	{ { "bitmap-contents", check_bitmap_contents }, "exit-bitmap" },
	{ { "bitmap-rules", check_bitmap_rules }, "exit-bitmap" },
	{ { "bitmap-exits-once", check_bitmap_exits_once }, "exit-bitmap" },
	{ { "bitmap-still-marked", check_bitmap_still_marked }, "exit-bitmap" },
	{ { "contents", check_contents }, "exit-on-missing" },
	{ { "never-sleeps", check_never_sleeps }, "exit-on-missing" },
	{ { "exit-address", check_exit_address }, "exit-on-missing" },
	{ { "exit-flags", check_exit_flags }, "exit-on-missing" },
	{ { "present", check_present }, "exit-on-missing" },
	{ { "exits-once", check_exits_once }, "exit-on-missing" },
	{ { "still-missing", check_still_missing }, "exit-on-missing" },
	{ { "dropped", check_dropped }, "exit-on-missing" },
	{ { "outside", check_outside }, "exit-on-missing" },
	{ { "race", check_race }, "exit-on-missing" },
	{ { "rules", check_rules }, "exit-on-missing" },
	{ { "flag-absent", check_flag_absent }, "exit-on-missing" },
};

void step_check(const char *name, uint32_t pages)
{
	const struct needing_check *found = find_named(checks, name);

	if (found->needs_thp && !has_thp())
		report("{\"kind\":\"check\",\"name\":\"%s\",\"tried\":0,\"failed\":0,\"milliseconds\":0,"
		       "\"lacks\":\"transparent huge pages\"}", name);
	else if (!mechanism_is_unavailable(mechanism_find(found->mechanism)))
		report_check(&found->check, pages);
}

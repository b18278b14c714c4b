// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "log.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"

struct named_mechanism {
	const char *name;
	const struct mechanism *mechanism;
};

static const struct named_mechanism mechanisms[] = {
	{ "bitmap", &kvm_bitmap },
	{ "manual-protect", &kvm_manual },
	{ "initially-set", &kvm_initially_set },
	{ "ring", &kvm_ring },
	{ "uffd-wp", &uffd_wp },
	{ "wp-async", &uffd_wp_async },
	{ "rwp", &uffd_rwp },
	{ "soft-dirty", &soft_dirty },
};

static const struct mechanism *mechanism_find(const char *name)
{
	const struct named_mechanism *named = find_named(mechanisms, name);

	return named->mechanism;
}

static bool is_lacking(const struct subject *subject, const char *what)
{
	if (what)
		report("{\"kind\":\"dirty-unavailable\",\"mechanism\":\"%s\",\"folio\":\"%s\",\"lacks\":\"%s\"}",
		       subject->mechanism, subject->folio, what);
	return what;
}

static int open_kvm(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (kvm < 0)
		fail("open /dev/kvm");
	return kvm;
}

static void *zeroed(size_t count)
{
	void *made = calloc(count, sizeof(uint64_t));

	if (!made)
		fail("allocate a bitmap");
	return memset(made, 0, count * sizeof(uint64_t));
}

/* Maps the area for the guest, writable, as it is when nothing is logged. */
static void write_all(struct log *log)
{
	int error = machine_attach(&log->machine, log->area.at, log->area.pages, 0);

	if (error)
		fail_with("set the memslot of the area", error);
	log_aim(log, 0, log->area.pages);
	log_write(log);
}

bool log_open(struct log *log, const struct subject *subject)
{
	const struct mechanism *mechanism = mechanism_find(subject->mechanism);
	int kvm = open_kvm();
	const char *lacks = mechanism->lacks(kvm);
	unsigned int ring = mechanism->has_ring ? ring_capability(kvm) : 0;

	close(kvm);
	if (is_lacking(subject, lacks))
		return false;
	*log = (struct log){ .mechanism = mechanism, .chunk = subject->chunk, .uffd = -1, .pagemap = -1 };
	if (!area_open(&log->area, mechanism->memory, subject->folio, subject->pages)) {
		area_close(&log->area);
		is_lacking(subject, "so many pages of 2 MiB");
		return false;
	}
	log->dirty = zeroed(log_words(log));
	log->written = zeroed(log_words(log));
	log->machine = machine_open_with_ring(ring, ring ? RING_SIZE : 0);
	write_all(log);
	mechanism->prepare(log);
	return true;
}

void log_close(struct log *log)
{
	log->mechanism->finish(log);
	machine_close(&log->machine);
	free(log->dirty);
	free(log->written);
	area_close(&log->area);
}

void log_aim(struct log *log, uint64_t page, uint64_t pages)
{
	machine_load(&log->machine, PROGRAM_COUNT, AREA_GPA + page * PAGE, pages);
}

void log_write(struct log *log)
{
	for (;;) {
		enum stop stop = machine_run(&log->machine);

		if (stop == STOP_END)
			return;
		if (stop == STOP_OTHER && log->machine.run->exit_reason == KVM_EXIT_DIRTY_RING_FULL)
			ring_drain(log);
		else if (stop != STOP_INTERRUPTED)
			fail("run the guest");
	}
}

void log_take_written(struct log *log)
{
	for (uint64_t i = 0; i < log_words(log); i++)
		log->dirty[i] = __atomic_exchange_n(&log->written[i], 0, __ATOMIC_SEQ_CST);
}

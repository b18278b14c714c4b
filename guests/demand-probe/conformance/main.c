// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the cases of conformance/kvm, which are in a file, each in a process of its own, with memory, userfaultfds, threads and a virtual machine
 * that end with it. Numbers are hexadecimal. A line:
 *
 *   case INDEX                      begins a case
 *   need NAME                       see needs.c; a case of which one is not met is not run
 *   vm                              it has a virtual machine
 *   memory KIND CONTENT PAGES       see memory.c; CONTENT is empty, filled or cached
 *   VERB NUMBERS..                  a step, of those in the table
 *
 * The answer to each step has the lengths of the userfaultfds' queues after it: [ANSWER, UNREAD, ALL].
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lib/linux/cases.h"
#include "../../lib/linux/fail.h"
#include "../../lib/linux/named.h"
#include "actor.h"
#include "guest.h"
#include "memory.h"
#include "memslot.h"
#include "needs.h"
#include "settled.h"
#include "userfaultfd.h"

#define ARGUMENTS 7

static void show(const uint64_t *arguments)
{
	memory_show(arguments[0]);
}

static void discard(const uint64_t *arguments)
{
	give_returned(madvise((void *)arguments[0], arguments[1], MADV_DONTNEED));
}

static void unmap(const uint64_t *arguments)
{
	give_returned(munmap((void *)arguments[0], arguments[1]));
}

struct verb {
	const char *name;
	unsigned int arguments;
	void (*run)(const uint64_t *arguments);
};

static const struct verb verbs[] = {
	{ "open", 2, uffd_open },
	{ "close", 1, uffd_close },
	{ "api", 3, uffd_api },
	{ "register", 4, uffd_register },
	{ "unregister", 3, uffd_unregister },
	{ "wake", 3, uffd_wake },
	{ "copy", 5, uffd_copy },
	{ "zeropage", 4, uffd_zeropage },
	{ "continue", 4, uffd_continue },
	{ "writeprotect", 4, uffd_writeprotect },
	{ "poll", 1, uffd_poll },
	{ "read", 2, uffd_read },
	{ "slot", 5, slot_set },
	{ "slot2", 7, slot_set2 },
	{ "gmem", 3, gmem_create },
	{ "close-gmem", 1, gmem_close },
	{ "dirty", 1, slot_dirty },
	{ "thread-read", 2, thread_read },
	{ "thread-write", 3, thread_write },
	{ "thread-await", 1, thread_await },
	{ "vcpu-read", 2, guest_read },
	{ "vcpu-write", 3, guest_write },
	{ "vcpu-run", 2, guest_run },
	{ "vcpu-await", 1, guest_await },
	{ "show", 1, show },
	{ "discard", 2, discard },
	{ "munmap", 2, unmap },
};

static unsigned int read_numbers(const char *text, uint64_t *numbers)
{
	unsigned int count = 0;
	int length;

	while (count < ARGUMENTS && sscanf(text, " %lx%n", &numbers[count], &length) == 1) {
		text += length;
		count++;
	}
	return count;
}

static void run_verb(const char *line, bool is_first)
{
	uint64_t arguments[ARGUMENTS] = { 0 };
	const struct verb *verb;
	struct waiting waiting;
	char name[32] = "";
	int length = 0;

	sscanf(line, "%31s%n", name, &length);
	verb = find_named(verbs, name);
	if (read_numbers(line + length, arguments) != verb->arguments)
		fail_with(line, EINVAL);
	report_more("%s[", is_first ? "" : ",");
	verb->run(arguments);
	waiting = settle();
	report_more(",%lu,%lu]", waiting.pending, waiting.total);
}

/* Returns whether a line describes the case: all that follow are steps. */
static bool prepare(const char *line)
{
	char kind[32], content[16];
	unsigned long pages;

	if (!strncmp(line, "need ", 5))
		return true;
	if (!strcmp(line, "vm"))
		guest_open();
	else if (sscanf(line, "memory %31s %15s %lx", kind, content, &pages) == 3)
		memory_add(kind, strcmp(content, "empty") ? content : "", pages);
	else
		return false;
	return true;
}

/* The first need that is not met, or NULL. */
static const char *lacking(void)
{
	for (unsigned int i = 0; i < pending.count; i++) {
		const char *line = pending.lines[i];

		if (!strncmp(line, "need ", 5) && !need_is_met(line + 5))
			return line + 5;
	}
	return NULL;
}

static void run_case(void)
{
	const char *need = lacking();
	unsigned int first = 0;

	if (need) {
		report("{\"kind\":\"kvm-case-skipped\",\"index\":%u,\"need\":\"%s\"}", pending.index, need);
		_exit(0);
	}
	while (first < pending.count && prepare(pending.lines[first]))
		first++;
	report_begin("{\"kind\":\"kvm-case\",\"index\":%u,\"answers\":[", pending.index);
	for (unsigned int i = first; i < pending.count; i++)
		run_verb(pending.lines[i], i == first);
	report_more("]}");
	/* Wakes every actor that still sleeps. */
	uffd_close_all();
	settle();
	report_end();
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the cases of kvm-cases", EINVAL);
	run_cases(argv[1]);
	return 0;
}

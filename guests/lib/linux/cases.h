/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A file of cases: a line `case INDEX`, then the lines of the case. Each case runs in a process of its own, and its
 * limits, mappings and descriptors end with it. For the one unit of a program that defines run_case().
 */
#ifndef PAGETOLL_CASES_H
#define PAGETOLL_CASES_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "file.h"
#include "process.h"

#define CASE_LINE 256
#define CASE_LINES 64

/* The case that is being read. */
static struct {
	unsigned int index;
	unsigned int count;
	char lines[CASE_LINES][CASE_LINE];
} pending;

/* Runs the pending case, reports it, and ends the process. */
static void run_case(void) __attribute__((noreturn));

static void run_pending(void)
{
	pid_t child;

	if (!pending.count)
		return;
	child = fork_or_fail();
	if (!child)
		run_case();
	if (wait_for(child))
		fail_with("a case ended early", ECHILD);
	pending.count = 0;
}

static void read_line_of_case(const char *line)
{
	unsigned int next;

	if (sscanf(line, "case %u", &next) == 1) {
		run_pending();
		pending.index = next;
	} else if (pending.count < CASE_LINES && strlen(line) < CASE_LINE) {
		strcpy(pending.lines[pending.count++], line);
	} else {
		fail_with(line, E2BIG);
	}
}

static void run_cases(const char *path)
{
	for_each_line(path, read_line_of_case);
	run_pending();
}

#endif

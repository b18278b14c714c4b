// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs a program of the user's own, so that what it executes can be counted. Runs the order in a file, a step a line:
 *
 *   folder PATH            the folder that it runs in
 *   environment FILE       its environment
 *   run FILE               run it without a mark: warms caches
 *   count FILE             run it between marks, from before its fork to after its end
 *   marked FILE            run it; the marks are its own
 *   maps FILE              run it, and leave what it has mapped at its end in MAPS
 *
 * A FILE holds words, each with a zero byte after it. Each run but that of maps is reported. What a program writes is in
 * OUTPUT until the next run; processes that it leaves behind are ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/linux/steady/steady.h"
#include "../lib/marks.h"
#include "program.h"

static struct program program;
static char *words[MOST_WORDS + 1];
static char *environment[MOST_WORDS + 1];

/* The words of a file; the last one given is a null pointer. */
static void read_words(const char *path, char **into)
{
	FILE *file = fopen(path, "re");
	size_t count = 0;

	if (!file)
		fail(path);
	while (count < MOST_WORDS) {
		char *word = NULL;
		size_t room = 0;

		if (getdelim(&word, &room, 0, file) <= 0)
			break;
		into[count++] = word;
	}
	into[count] = NULL;
	fclose(file);
}

static void run_step(const char *line)
{
	char path[256];

	MARK_NOP(MARK_STEP);
	if (sscanf(line, "folder %255[^\n]", path) == 1) {
		if (chdir(path) < 0)
			fail(path);
		return;
	}
	if (sscanf(line, "environment %255s", path) == 1) {
		read_words(path, environment);
		return;
	}
	program = (struct program){ .words = words, .environment = environment };
	if (sscanf(line, "run %255s", path) == 1)
		program.marks = NO_MARKS;
	else if (sscanf(line, "count %255s", path) == 1)
		program.marks = AROUND;
	else if (sscanf(line, "marked %255s", path) == 1)
		program.marks = ITS_OWN;
	else if (sscanf(line, "maps %255s", path) == 1)
		program.marks = MAPPED;
	else
		fail_with(line, EINVAL);
	read_words(path, words);
	program_run(&program);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of runner", EINVAL);
	steady();
	program_prepare();
	for_each_line(argv[1], run_step);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bills the demand route: a guest of this guest touches memory that has to be brought in, a step a line of the order
 * that is given.
 *
 *   bill MECHANISM PAGES REPEATS
 *   parts COUNT
 *   check NAME PAGES
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../init/report.h"
#include "steps.h"

static void run_step(const char *line)
{
	unsigned long long pages;
	unsigned int count;
	char word[64];

	if (sscanf(line, "bill %63s %llu %u", word, &pages, &count) == 3)
		step_bill(word, pages, count);
	else if (sscanf(line, "parts %u", &count) == 1)
		step_parts(count);
	else if (sscanf(line, "check %63s %llu", word, &pages) == 2)
		step_check(word, pages);
	else {
		errno = EINVAL;
		fail(line);
	}
}

int main(int argc, char **argv)
{
	char line[512];
	FILE *order = argc == 2 ? fopen(argv[1], "re") : NULL;

	if (!order)
		fail("open the order of demand-probe");
	while (fgets(line, sizeof(line), order)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			run_step(line);
	}
	fclose(order);
	return 0;
}

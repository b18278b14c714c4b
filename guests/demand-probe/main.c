// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the demand route: a guest of this guest touches memory that is missing. Runs the order in a file, a step a line:
 *
 *   bill MECHANISM BATCH PAGES REPEATS
 *   parts BATCH COUNT
 *   check NAME PAGES
 */
#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "steps.h"

static void run_step(const char *line)
{
	unsigned int batch, pages, count;
	char word[64];

	if (sscanf(line, "bill %63s %u %u %u", word, &batch, &pages, &count) == 4)
		step_bill(word, batch, pages, count);
	else if (sscanf(line, "parts %u %u", &batch, &count) == 2)
		step_parts(batch, count);
	else if (sscanf(line, "check %63s %u", word, &pages) == 2)
		step_check(word, pages);
	else
		fail_with(line, EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of demand-probe", EINVAL);
	for_each_line(argv[1], run_step);
	return 0;
}

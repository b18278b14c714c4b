// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the dirty route: which pages a guest of this guest has written. Runs the order in a file, a step a line:
 *
 *   bill MECHANISM FOLIO CHUNK PAGES REPEATS
 *   loss MECHANISM FOLIO CHUNK PAGES ROUNDS
 */
#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "steps.h"

static void run_step(const char *line)
{
	unsigned int chunk, pages, count;
	char mechanism[64], folio[16];

	if (sscanf(line, "bill %63s %15s %u %u %u", mechanism, folio, &chunk, &pages, &count) == 5)
		step_bill(&(struct subject){ mechanism, folio, chunk, pages }, count);
	else if (sscanf(line, "loss %63s %15s %u %u %u", mechanism, folio, &chunk, &pages, &count) == 5)
		step_loss(&(struct subject){ mechanism, folio, chunk, pages }, count);
	else
		fail_with(line, EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of dirty-probe", EINVAL);
	for_each_line(argv[1], run_step);
	return 0;
}

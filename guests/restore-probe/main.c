// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the restore route: a guest of this guest is restored from an image. Runs the order in a file, a step a line:
 *
 *   bill MECHANISM BATCH PAGES REPEATS
 *   control MECHANISM BATCH PAGES
 */
#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "steps.h"

static void run_step(const char *line)
{
	unsigned int batch, pages, repeats;
	char mechanism[64];

	if (sscanf(line, "bill %63s %u %u %u", mechanism, &batch, &pages, &repeats) == 4)
		step_bill(&(struct subject){ mechanism, batch, pages }, repeats);
	else if (sscanf(line, "control %63s %u %u", mechanism, &batch, &pages) == 3)
		step_control(&(struct subject){ mechanism, batch, pages });
	else
		fail_with(line, EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of restore-probe", EINVAL);
	for_each_line(argv[1], run_step);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the discard route: memory of a guest of this guest is given back. Runs the order in a file, a step a line:
 *
 *   bill CALL BACKING CHUNK PAGES REPEATS
 *   single CALL BACKING CHUNK PAGES
 *   misplace CALL BACKING CHUNK PAGES
 *   misplace-and-spoil CALL BACKING CHUNK PAGES
 *   hold CALL BACKING CHUNK PAGES
 *   clear PAGES
 */
#include <errno.h>
#include <stdio.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "steps.h"

static void run_step(const char *line)
{
	unsigned int chunk, pages, repeats;
	char call[64], backing[64];

	if (sscanf(line, "bill %63s %63s %u %u %u", call, backing, &chunk, &pages, &repeats) == 5)
		step_bill(&(struct subject){ call, backing, chunk, pages }, repeats);
	else if (sscanf(line, "single %63s %63s %u %u", call, backing, &chunk, &pages) == 4)
		step_single(&(struct subject){ call, backing, chunk, pages });
	else if (sscanf(line, "misplace %63s %63s %u %u", call, backing, &chunk, &pages) == 4)
		step_misplace(&(struct subject){ call, backing, chunk, pages });
	else if (sscanf(line, "misplace-and-spoil %63s %63s %u %u", call, backing, &chunk, &pages) == 4)
		step_misplace_and_spoil(&(struct subject){ call, backing, chunk, pages });
	else if (sscanf(line, "hold %63s %63s %u %u", call, backing, &chunk, &pages) == 4)
		step_hold(&(struct subject){ call, backing, chunk, pages });
	else if (sscanf(line, "clear %u", &pages) == 1)
		step_clear(pages);
	else
		fail_with(line, EINVAL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		fail_with("the order of discard-probe", EINVAL);
	for_each_line(argv[1], run_step);
	return 0;
}

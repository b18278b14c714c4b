/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs of a program. */
#ifndef PAGETOLL_PROGRAM_H
#define PAGETOLL_PROGRAM_H

/* Of a command, and of an environment. */
#define MOST_WORDS 4096

/* Where a program's standard output and error go: at most 16 MiB. */
#define OUTPUT "/.pagetoll/output"
#define MAPS "/.pagetoll-maps"

enum marks {
	NO_MARKS,
	/* From before its fork to after its end. */
	AROUND,
	ITS_OWN,
	/* None; its mappings are left in MAPS. */
	MAPPED,
};

struct program {
	char **words;
	char **environment;
	enum marks marks;
};

/* Makes the folders that programs expect, and the one of OUTPUT. */
void program_prepare(void);

/*
 * Runs it with address space randomisation off, its input empty; ends what it leaves behind. Reports its status as wait(2)
 * has it, and of one that failed the end of its output: then the guest has nothing more to do.
 */
void program_run(const struct program *program);

#endif

// SPDX-License-Identifier: GPL-2.0-only
#include "answer.h"

#include <errno.h>

#include "../../lib/report.h"

static const struct {
	const char *name;
	unsigned int numbers;
} kinds[] = {
	[ANSWER_DONE] = { "done", 0 },
	[ANSWER_REFUSED] = { "refused", 1 },
	[ANSWER_REGISTERED] = { "registered", 1 },
	[ANSWER_FILLED] = { "filled", 2 },
	[ANSWER_UNTOUCHED] = { "untouched", 1 },
	[ANSWER_POLLED] = { "polled", 1 },
	[ANSWER_RECEIVED] = { "received", 2 },
	[ANSWER_WORD] = { "word", 1 },
	[ANSWER_SLEEPS] = { "sleeps", 0 },
	[ANSWER_IDLE] = { "idle", 0 },
	[ANSWER_MMIO_READ] = { "mmio-read", 2 },
	[ANSWER_MMIO_WRITE] = { "mmio-write", 2 },
	[ANSWER_RUN_FAILED] = { "run-failed", 0 },
	[ANSWER_MEMORY_FAULT] = { "memory-fault", 3 },
	[ANSWER_OTHER] = { "other", 2 },
};

void give(struct answer answer)
{
	const char *name = kinds[answer.kind].name;
	unsigned int numbers = kinds[answer.kind].numbers;

	if (!numbers) {
		report_more("\"%s\"", name);
		return;
	}
	report_more("{\"%s\":%s", name, numbers > 1 ? "[" : "");
	/* A field that the kernel wrote may be a negative errno. */
	for (unsigned int i = 0; i < numbers; i++)
		report_more("%s%ld", i ? "," : "", (long)answer.numbers[i]);
	report_more("%s}", numbers > 1 ? "]" : "");
}

void give_returned(int ret)
{
	if (ret < 0)
		give((struct answer){ ANSWER_REFUSED, { errno } });
	else
		give((struct answer){ ANSWER_DONE });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* Clears of entries that Xen refuses: a Xen with fixes/refusals, which needs to be asked for them. */
#include "../../steps/hypfs.h"
#include "../checks.h"

/* A prime: refused are the entries of every place in a run, and none beside another. */
#define CLEARS_PER_REFUSAL 61

static void add(struct finding *sum, struct finding finding)
{
	sum->tried += finding.tried;
	sum->failed += finding.failed;
}

struct finding check_refused_clears(uint32_t pages)
{
	struct finding sum = { 0 };

	expect_refusals();
	hypfs_set_parameter("refuse-clears", HYPFS_UINT, CLEARS_PER_REFUSAL);
	add(&sum, check_shared_files(pages));
	add(&sum, check_private_copies(pages));
	add(&sum, check_accounting(pages));
	hypfs_set_parameter("refuse-clears", HYPFS_UINT, 0);
	sum.failed += hypfs_parameter("refused-clears", HYPFS_UINT) == 0;
	return sum;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* Clears of entries that Xen refuses: a Xen with fixes/refusals, which needs to be asked for them. */
#include "../../steps/hypfs.h"
#include "../checks.h"

/* A prime: refused are the entries of every place in a run, and none beside another. */
#define CLEARS_PER_REFUSAL 61

typedef struct finding (*body_t)(uint32_t pages);

static const body_t bodies[] = { check_accounting, check_private_copies, check_shared_files };

struct finding check_refused_clears(uint32_t pages)
{
	struct finding sum = { 0 };

	expect_refusals();
	hypfs_set_parameter("refuse-clears", HYPFS_UINT, CLEARS_PER_REFUSAL);
	for (size_t i = 0; i < COUNT_OF(bodies) && needs_round(&sum, UINT32_MAX); i++) {
		struct finding finding = bodies[i](pages);

		sum.tried += finding.tried;
		sum.failed += finding.failed;
	}
	hypfs_set_parameter("refuse-clears", HYPFS_UINT, 0);
	sum.failed += hypfs_parameter("refused-clears", HYPFS_UINT) == 0;
	return sum;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#include "check.h"

#include "../report.h"

void report_check(const struct check *check, uint32_t pages)
{
	struct finding finding = check->run(pages);

	report("{\"kind\":\"check\",\"name\":\"%s\",\"tried\":%lu,\"failed\":%lu}", check->name, finding.tried,
	       finding.failed);
}

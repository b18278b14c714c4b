/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_PV32_CONSOLE_H
#define PAGETOLL_PV32_CONSOLE_H

#include "../../lib/report.h"

/* Ends the guest when a hypercall returned an error. */
static inline void must(const char *what, long ret)
{
	if (ret)
		fail_with(what, -ret);
}

#endif

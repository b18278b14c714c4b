/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGETOLL_PV32_TRACE_H
#define PAGETOLL_PV32_TRACE_H

#include "../lib/xentrace.h"

/* Starts lib/xentrace.h's capture in this guest. */
void trace_begin(uint32_t buffer_pages);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Captures Xen's own trace, in the format that xenalyze reads. */
#ifndef PAGETOLL_PV32_TRACE_H
#define PAGETOLL_PV32_TRACE_H

#include <stdint.h>

/* Starts tracing PV events, into so many pages for the CPU. */
void trace_begin(uint32_t buffer_pages);

/* Takes what came so far out of the buffer. */
void trace_drain(void);

/* Stops tracing and hands the capture over. */
void trace_end(void);

#endif

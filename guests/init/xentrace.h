/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Captures Xen's trace buffers, in the file format of Xen's own xentrace.
 *
 * Xen's tool is bound to the sysctl version of its own release; this one asks the running Xen which version it
 * speaks, so that it works under any Xen that the user brings.
 */
#ifndef PAGETOLL_XENTRACE_H
#define PAGETOLL_XENTRACE_H

#include <stddef.h>
#include <stdint.h>

/* Starts tracing of the PV event class with buffers of `pages` for each CPU. */
void xentrace_begin(uint32_t pages);

/* Moves what the buffers hold into memory. */
void xentrace_drain(void);

/* Stops tracing; returns everything captured. */
const void *xentrace_end(size_t *size);

#endif

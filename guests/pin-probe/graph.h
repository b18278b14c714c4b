/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function_graph tracer of the kernel, for the ioctls of VFIO type1 and what they call.
 * Documentation/trace/ftrace.rst.
 */
#ifndef PAGETOLL_GRAPH_H
#define PAGETOLL_GRAPH_H

void graph_begin(void);
/* Ends the trace and keeps its text, headed by the line "# shape: NAME", in the shared memory. */
void graph_end(const char *name);
/* Reports the text of all traces, if there were any. */
void graph_report(void);

#endif

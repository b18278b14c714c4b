/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function_graph tracer of the kernel, for the ioctls of VFIO type1 and what they call.
 * Documentation/trace/ftrace.rst.
 */
#ifndef PAGETOLL_GRAPH_H
#define PAGETOLL_GRAPH_H

void graph_begin(void);
/* Ends the trace; its text begins with the line "# shape: NAME". */
void graph_end(const char *name);
/* Hands the text of all traces over. */
void graph_hand_over(void);

#endif

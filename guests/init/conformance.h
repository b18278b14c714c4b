/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_CONFORMANCE_H
#define PAGETOLL_CONFORMANCE_H

/* conformance FILE: the probe runs the cases of a file, a result line each. */
void step_conformance(const char *path);

#endif

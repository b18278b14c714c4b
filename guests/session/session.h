/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_SESSION_H
#define PAGETOLL_SESSION_H

/*
 * Runs the order in one file, with bulk data to another. Returns 0. A step that fails ends the process after an error
 * report.
 */
int pagetoll_session(const char *order, const char *bulk);

#endif

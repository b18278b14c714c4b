/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The steps of an order that bill something. Each reports one result line and ends the guest when it fails. */
#ifndef PAGETOLL_STEPS_H
#define PAGETOLL_STEPS_H

#include <stdint.h>

#define NO_MARK 0xffffffffu

/* clear MECHANISM BATCH: get and clear the entries of `pages` anonymous pages once, by the probe. */
void step_clear(const char *mechanism, uint32_t batch, uint32_t pages, uint32_t mark);

/* release: gives the pages of the clear steps back. */
void step_release(void);

/* race MECHANISM BATCH DIRTIED LIMIT_MS: the same against a second vCPU that dirties the pages. */
void step_race(const char *mechanism, uint32_t batch, uint64_t dirtied, uint32_t limit_ms);

/* user OPERATION: what user space pays, per page, without the probe. */
void step_user(const char *operation, uint32_t pages, uint32_t mark);

/* set MECHANISM: set the emptied entries of `pages` anonymous pages once, by the probe. */
void step_set(const char *mechanism, uint32_t pages, uint32_t mark);

/* repeat OPERATION MECHANISM: an operation without pages, `count` times, by the probe. */
void step_repeat(const char *operation, const char *mechanism, uint32_t count, uint32_t mark);

/* call OPERATION: what user space pays, per system call or switch, without the probe. */
void step_call(const char *operation, uint32_t count, uint32_t mark);

/* Marks around what is timed, for Xen's trace and for whoever follows the instructions. */
void mark_begin(uint32_t mark);
void mark_end(uint32_t mark);

/* conformance FILE: carry out the cases of a file by the probe, one result line each. */
void step_conformance(const char *path);

#endif

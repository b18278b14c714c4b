/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The steps of an order that measure something. Each reports its results and ends the guest when it fails. */
#ifndef PAGETOLL_STEPS_H
#define PAGETOLL_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "../lib/marks.h"

/* clear MECHANISM BATCH: the probe gets and clears the entries of `pages` anonymous pages once. */
void step_clear(const char *mechanism, uint32_t batch, uint32_t pages, uint32_t mark);

/* release: frees the pages of the clear and set steps. */
void step_release(void);

/* race MECHANISM BATCH DIRTIED LIMIT_MS: the same against a second vCPU that dirties the pages. */
void step_race(const char *mechanism, uint32_t batch, uint64_t dirtied, uint32_t limit_ms);

/* set MECHANISM: the probe sets the emptied entries of `pages` anonymous pages once. */
void step_set(const char *mechanism, uint32_t pages, uint32_t mark);

/* repeat OPERATION MECHANISM: the probe repeats an operation without pages. */
void step_repeat(const char *operation, const char *mechanism, uint32_t count, uint32_t mark);

/* user OPERATION: what user space pays per page, without the probe. */
void step_user(const char *operation, uint32_t pages, uint32_t mark);

/*
 * foreign OPERATION BATCH: what a privileged domain pays per page of another domain's memory. munmap-foreign unmaps what
 * map-foreign has mapped before.
 */
void step_foreign(const char *operation, uint32_t batch, uint32_t pages, uint32_t mark);

/*
 * domain ID: the other domain is this one, which exists: its memory is neither written nor checked, and of
 * `pages` as many are mapped as it has.
 */
void step_domain(uint32_t id, uint32_t pages);

/* foreign-prepare: makes the other domain, which is made at its first use else. */
void step_foreign_prepare(uint32_t pages);

/* translated-domain: makes a domain with nested paging, its pages at the guest frames from 0 on. */
void step_translated_domain(uint32_t pages);

/* foreign-release: ends the other domain, and reports whether Xen has freed it. */
void step_foreign_release(void);

/* call OPERATION: what user space pays per system call or switch, without the probe. */
void step_call(const char *operation, uint32_t count, uint32_t mark);

struct finding;

/* The check that is made of them: another domain's pages are those of that domain, and are let go. */
struct finding check_foreign(uint32_t pages);

/*
 * Runs a line of an order that measures something; false where it is none. Lines have numbers, from 1, and while Xen's
 * trace is captured what a line times lies between marks with its number.
 *
 *   pages N                                pages, or repetitions, of the steps that follow
 *   clear MECHANISM BATCH                  and so on: as above
 *   trace-begin BUFFER_PAGES               capture Xen's trace
 *   trace-end                              report the capture
 */
bool run_measuring_step(const char *line);

/* Begins the next line, whether it measures or not; and ends it. */
void line_begin(void);
void line_end(void);

/* Reports what this is: kernel, hypervisor, CPUs. */
void report_hello(void);

/* Defined by each program: returns when what follows can be timed, right after a timer tick. */
void await_start(void);

/* Marks around what is timed: lib/marks.h. */
void mark_begin(uint32_t mark);
void mark_end(uint32_t mark);

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What makes the cost of a program follow from the program, and not from the boot before it. */
#ifndef PAGETOLL_STEADY_H
#define PAGETOLL_STEADY_H

/*
 * Gives the per-CPU lists of free pages an eighth of the memory (vm.percpu_pagelist_high_fraction, since Linux 5.14): how
 * often they are refilled from the buddy allocator, and what that finds, follows from what the boot left free, and moves what
 * a page costs by up to 2.7 %. Credits the random number generator, whose first use else gathers jitter for 10^9 instructions
 * where the processor has no RDRAND.
 */
void steady(void);

/*
 * Returns right after a timer tick, when what the work before left to be done later, such as RCU's callbacks and the sums of
 * memory cgroups, is done. Time in which nothing runs takes none of the host's.
 */
void rest(void);

#endif

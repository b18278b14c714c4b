/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The state of a kernel that makes what programs cost follow from the programs alone. */
#ifndef PAGETOLL_STEADY_H
#define PAGETOLL_STEADY_H

/*
 * Gives the per-CPU lists of free pages an eighth of the memory (vm.percpu_pagelist_high_fraction, since Linux 5.14): how
 * often they are refilled from the buddy allocator, and what that finds, follows from what the boot left free, and moves what
 * a page costs by up to 2.7 %. Credits the random number generator, whose first use else gathers jitter for 10^9 instructions
 * where the processor has no RDRAND.
 */
void steady(void);

#endif

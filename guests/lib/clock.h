/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The time-stamp counter, or the generic timer's, which the lab's machines run at 1 GHz: one tick is one instruction under
 * QEMU's -icount shift=0.
 */
#ifndef PAGETOLL_CLOCK_H
#define PAGETOLL_CLOCK_H

#include <stdint.h>

static inline uint64_t ticks(void)
{
#ifdef __aarch64__
	uint64_t now;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now) : : "memory");
	return now;
#else
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#endif
}

/* In a loop that waits for another CPU. */
static inline void spin_wait(void)
{
#ifdef __aarch64__
	__asm__ volatile("yield");
#else
	__builtin_ia32_pause();
#endif
}

#endif

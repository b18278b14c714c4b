/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The time-stamp counter: one tick is one instruction under QEMU's -icount shift=0. */
#ifndef PAGETOLL_CLOCK_H
#define PAGETOLL_CLOCK_H

#include <stdint.h>

static inline uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Source: Xen's public/sched.h, sched_poll; public/xen.h, shared_info of 32-bit guests. Under QEMU's -icount shift=0 a
 * tick of the time-stamp counter is a nanosecond of Xen's clock.
 */
#include "quiet.h"

#include "../lib/clock.h"
#include "freestanding/console.h"
#include "memory.h"

#define SCHEDOP_POLL 3
/* Of vcpu_info[0], whose vcpu_time_info is at byte 32. */
#define TSC_TIMESTAMP 40
#define SYSTEM_TIME 48
/* The longest report has 400 characters: 35 ms at 115200 baud. */
#define WAIT_NS 100000000u

struct poll {
	uint32_t ports;
	uint32_t nr_ports;
	uint64_t timeout;
};

static const volatile uint8_t *shared_info;

void quiet_init(const struct start_info *info)
{
	map_frame(SHARED_INFO, info->shared_info | PTE_PRESENT | PTE_WRITABLE | PTE_ACCESSED | PTE_DIRTY, DOMID_SELF);
	shared_info = (const volatile uint8_t *)SHARED_INFO;
}

static uint64_t field(unsigned int place)
{
	return *(const volatile uint64_t *)(shared_info + place);
}

void quiet_wait(void)
{
	struct poll poll = { .timeout = field(SYSTEM_TIME) + (ticks() - field(TSC_TIMESTAMP)) + WAIT_NS };

	must("wait", hypercall2(HYPERVISOR_SCHED_OP, SCHEDOP_POLL, (uint32_t)&poll));
}

// SPDX-License-Identifier: GPL-2.0-only
/* KVM's ring of dirty pages: Documentation/virt/kvm/api.rst, KVM_CAP_DIRTY_LOG_RING. */
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../demand-probe/abi/kvm_call.h"
#include "log.h"

/* Since Linux 5.11 on x86, and 6.3 on arm64, where entries have to be read and released in order. */
#define CAP_RING 192
#define CAP_RING_ACQ_REL 223
/* KVM_DIRTY_LOG_PAGE_OFFSET, which headers before 6.3 have as 0 on arm64. */
#define RING_AT (64 * PAGE)
#define ENTRIES (RING_SIZE / sizeof(struct ring_entry))

unsigned int ring_capability(int kvm)
{
	static const unsigned int either[] = { CAP_RING_ACQ_REL, CAP_RING };

	for (int i = 0; i < 2; i++)
		if (ioctl(kvm, KVM_CHECK_EXTENSION, either[i]) > 0)
			return either[i];
	return 0;
}

static const char *lacks_ring(int kvm)
{
	return ring_capability(kvm) ? NULL : "KVM_CAP_DIRTY_LOG_RING";
}

/* The first touch of each page of the ring is a fault. */
static void map_ring(struct log *log)
{
	void *made = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, log->machine.vcpu, RING_AT);

	if (made == MAP_FAILED)
		fail("map the ring of dirty pages");
	log->ring = made;
	for (uint64_t i = 0; i < ENTRIES; i += PAGE / sizeof(struct ring_entry))
		(void)*(volatile uint32_t *)&log->ring[i].flags;
}

static void unmap_ring(struct log *log)
{
	munmap(log->ring, RING_SIZE);
}

static void collect(struct log *log)
{
	for (;; log->ring_next++) {
		struct ring_entry *entry = &log->ring[log->ring_next % ENTRIES];

		if (__atomic_load_n(&entry->flags, __ATOMIC_ACQUIRE) != KVM_DIRTY_GFN_F_DIRTY)
			return;
		set_bit(log->written, entry->offset);
		__atomic_store_n(&entry->flags, KVM_DIRTY_GFN_F_RESET, __ATOMIC_RELEASE);
	}
}

static void reset(struct log *log)
{
	kvm_call(log->machine.vm, KVM_RESET_DIRTY_RINGS, NULL, "KVM_RESET_DIRTY_RINGS");
}

static void harvest(struct log *log)
{
	collect(log);
	log_take_written(log);
}

void ring_drain(struct log *log)
{
	collect(log);
	reset(log);
}

const struct mechanism kvm_ring = {
	.lacks = lacks_ring, .has_ring = true, .prepare = map_ring, .finish = unmap_ring, .arm = kvm_arm,
	.harvest = harvest, .rearm = reset, .disarm = kvm_disarm,
};

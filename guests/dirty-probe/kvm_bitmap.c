// SPDX-License-Identifier: GPL-2.0-only
/* KVM's bitmap of a memslot: Documentation/virt/kvm/api.rst, 4.8, 4.117 and 7.2. */
#include <linux/kvm.h>
#include <sys/ioctl.h>

#include "../demand-probe/abi/kvm_call.h"
#include "log.h"

#define MANUAL KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE
#define INITIALLY_SET (KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET)
/* AREA_SLOT of machine.c. */
#define SLOT 1

static const char *lacks_nothing(int kvm)
{
	(void)kvm;
	return NULL;
}

static bool can(int kvm, int flags)
{
	return (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2) & flags) == flags;
}

static const char *lacks_manual(int kvm)
{
	return can(kvm, MANUAL) ? NULL : "KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2";
}

static const char *lacks_initially_set(int kvm)
{
	return can(kvm, INITIALLY_SET) ? NULL : "KVM_DIRTY_LOG_INITIALLY_SET";
}

static void nothing(struct log *log)
{
	(void)log;
}

static void enable(struct log *log, int flags)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, .args = { flags } };

	kvm_call(log->machine.vm, KVM_ENABLE_CAP, &cap, "enable manual protection");
}

static void enable_manual(struct log *log)
{
	enable(log, MANUAL);
}

static void enable_initially_set(struct log *log)
{
	enable(log, INITIALLY_SET);
}

static void attach(struct log *log, uint32_t flags)
{
	int error = machine_attach(&log->machine, log->area.at, log->area.pages, flags);

	if (error)
		fail_with("change the memslot of the area", error);
}

void kvm_arm(struct log *log)
{
	attach(log, KVM_MEM_LOG_DIRTY_PAGES);
}

void kvm_disarm(struct log *log)
{
	attach(log, 0);
}

static void get(struct log *log)
{
	machine_dirty_log(&log->machine, log->dirty);
}

static void clear(struct log *log)
{
	uint64_t chunk = log->chunk ? log->chunk : log->area.pages;

	for (uint64_t page = 0; page < log->area.pages; page += chunk) {
		uint64_t left = log->area.pages - page;
		struct kvm_clear_dirty_log request = {
			.slot = SLOT, .first_page = page, .num_pages = left < chunk ? left : chunk,
			.dirty_bitmap = log->dirty + page / 64,
		};

		kvm_call(log->machine.vm, KVM_CLEAR_DIRTY_LOG, &request, "KVM_CLEAR_DIRTY_LOG");
	}
}

const struct mechanism kvm_bitmap = {
	.lacks = lacks_nothing, .prepare = nothing, .finish = nothing, .arm = kvm_arm, .harvest = get,
	.disarm = kvm_disarm,
};
const struct mechanism kvm_manual = {
	.lacks = lacks_manual, .prepare = enable_manual, .finish = nothing, .arm = kvm_arm, .harvest = get,
	.rearm = clear, .disarm = kvm_disarm,
};
const struct mechanism kvm_initially_set = {
	.lacks = lacks_initially_set, .prepare = enable_initially_set, .finish = nothing, .arm = kvm_arm,
	.harvest = get, .rearm = clear, .disarm = kvm_disarm,
};

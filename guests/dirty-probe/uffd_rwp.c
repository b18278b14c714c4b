// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection from reads and writes by userfaultfd (Linux 7.3): Documentation/admin-guide/mm/userfaultfd.rst, Read-Write
 * Protection. The kernel lifts it by itself at the first access; a scan of pagemap finds the pages that were accessed, and
 * protects none. The host reads pages by a second mapping of their file: by the first it would access them, too.
 */
#include <errno.h>

#include "../lib/linux/fail.h"
#include "log.h"
#include "uffd.h"

#define FEATURES (ABI_UFFD_RWP | ABI_UFFD_RWP_ASYNC)

static const char *lacks_rwp(int kvm)
{
	(void)kvm;
	return uffd_lacks(FEATURES, "UFFD_FEATURE_RWP_ASYNC");
}

static void prepare(struct log *log)
{
	uffd_prepare_scan(log, FEATURES);
}

static void protect(struct log *log, uint64_t page, uint64_t pages)
{
	struct abi_rwprotect rwp = {
		.range = { (uintptr_t)log->area.at + page * PAGE, pages * PAGE }, .mode = ABI_RWPROTECT_MODE_RWP,
	};

	while (ioctl(log->uffd, ABI_UFFDIO_RWPROTECT, &rwp) < 0)
		if (errno != EAGAIN)
			fail("UFFDIO_RWPROTECT");
}

static void arm(struct log *log)
{
	uffd_register(log, ABI_REGISTER_MODE_RWP);
	protect(log, 0, log->area.pages);
}

static void harvest(struct log *log)
{
	uffd_scan(log, ABI_PAGE_IS_ACCESSED, 0);
}

static void rearm(struct log *log)
{
	uffd_protect_reported(log, protect);
}

const struct mechanism uffd_rwp = {
	.lacks = lacks_rwp, .memory = AREA_SHARED, .prepare = prepare, .finish = uffd_finish_scan, .arm = arm,
	.harvest = harvest, .rearm = rearm, .disarm = uffd_unregister,
};

// SPDX-License-Identifier: GPL-2.0-only
#include "memslot.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/page.h"
#include "../abi/kvm_abi.h"
#include "answer.h"
#include "guest.h"

#define GMEMS 4
#define NO_FD 0xffffffffu
/* In the bitmap of a dirty log; no case has slots of so many pages. */
#define BITMAP_WORDS 64

/* A descriptor and one, so that 0 is none. */
static int gmems[GMEMS];

static int *gmem_of(uint64_t number)
{
	if (number >= GMEMS)
		fail_with("guest_memfds of a case", E2BIG);
	return &gmems[number];
}

static struct abi_region region_of(const uint64_t *arguments)
{
	return (struct abi_region){
		.slot = arguments[0], .flags = arguments[1], .guest_phys_addr = arguments[2],
		.memory_size = arguments[3], .userspace_addr = arguments[4],
	};
}

/* struct abi_region begins as struct kvm_userspace_memory_region does. */
void slot_set(const uint64_t *arguments)
{
	struct abi_region region = region_of(arguments);

	give_returned(ioctl(guest_vm(), KVM_SET_USER_MEMORY_REGION, &region));
}

void slot_set2(const uint64_t *arguments)
{
	struct abi_region region = region_of(arguments);

	region.guest_memfd = NO_FD;
	if (arguments[5] != NO_GMEM)
		region.guest_memfd = *gmem_of(arguments[5]) - 1;
	region.guest_memfd_offset = arguments[6];
	give_returned(ioctl(guest_vm(), ABI_SET_USER_MEMORY_REGION2, &region));
}

void gmem_create(const uint64_t *arguments)
{
	struct abi_create_memfd create = { .size = arguments[1], .flags = arguments[2] };
	int fd = ioctl(guest_vm(), ABI_CREATE_GUEST_MEMFD, &create);

	give_returned(fd);
	*gmem_of(arguments[0]) = fd + 1;
}

void gmem_close(const uint64_t *arguments)
{
	int *gmem = gmem_of(arguments[0]);

	give_returned(close(*gmem - 1));
	*gmem = 0;
}

static void give_dirty(const uint64_t *bitmap)
{
	bool has_page = false;

	report_more("{\"dirty\":[");
	for (unsigned int page = 0; page < BITMAP_WORDS * 64; page++) {
		if (!(bitmap[page / 64] >> page % 64 & 1))
			continue;
		report_more("%s%u", has_page ? "," : "", page);
		has_page = true;
	}
	report_more("]}");
}

void slot_dirty(const uint64_t *arguments)
{
	uint64_t bitmap[BITMAP_WORDS] = { 0 };
	struct kvm_dirty_log log = { .slot = arguments[0], .dirty_bitmap = bitmap };

	if (ioctl(guest_vm(), KVM_GET_DIRTY_LOG, &log) < 0)
		give_returned(-1);
	else
		give_dirty(bitmap);
}

/* The number of the capability in the exit-on-missing series means another one by now, so the flag is tried. */
bool slot_takes_exit_on_missing(int vm)
{
	struct abi_region region = {
		.flags = ABI_MEM_EXIT_ON_MISSING, .memory_size = PAGE, .userspace_addr = 1ull << 34,
	};

	return ioctl(vm, ABI_SET_USER_MEMORY_REGION2, &region) == 0;
}

bool slot_takes_guest_memfd(int vm)
{
	struct abi_create_memfd create = { .size = PAGE, .flags = ABI_GMEM_MMAP | ABI_GMEM_INIT_SHARED };
	int fd = ioctl(vm, ABI_CREATE_GUEST_MEMFD, &create);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

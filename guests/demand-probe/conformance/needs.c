// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "needs.h"

#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../../lib/linux/file.h"
#include "../../lib/linux/named.h"
#include "../abi/kvm_abi.h"
#include "guest.h"
#include "memslot.h"
#include "userfaultfd.h"

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

#define HUGEPAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/"
/* More than any case has. */
#define WANTED_HUGEPAGES 4

static bool vm_takes(bool (*takes)(int vm))
{
	int vm = guest_open_empty();
	bool taken = takes(vm);

	close(vm);
	return taken;
}

static bool takes_region2(int vm)
{
	return ioctl(vm, KVM_CHECK_EXTENSION, ABI_CAP_USER_MEMORY2) == 1;
}

static bool has_region2(void)
{
	return vm_takes(takes_region2);
}

static bool has_guest_memfd(void)
{
	return vm_takes(slot_takes_guest_memfd);
}

static bool has_exit_on_missing(void)
{
	return vm_takes(slot_takes_exit_on_missing);
}

static bool has_no_exit_on_missing(void)
{
	return !has_exit_on_missing();
}

/* This guest is nobody else's, so that pages are set aside as they are needed. */
static bool has_hugepages(void)
{
	char free_pages[32];

	if (access(HUGEPAGES "nr_hugepages", W_OK) < 0)
		return false;
	write_file(HUGEPAGES "nr_hugepages", "4");
	read_line(HUGEPAGES "free_hugepages", free_pages, sizeof(free_pages));
	return atoi(free_pages) >= WANTED_HUGEPAGES;
}

static bool has_wp(void)
{
	return uffd_features() & UFFD_FEATURE_PAGEFAULT_FLAG_WP;
}

static bool has_wp_unpopulated(void)
{
	return uffd_features() & UFFD_FEATURE_WP_UNPOPULATED;
}

static const struct {
	const char *name;
	bool (*is_met)(void);
} needs[] = {
	{ "region2", has_region2 },
	{ "guest-memfd", has_guest_memfd },
	{ "hugepages", has_hugepages },
	{ "exit-on-missing", has_exit_on_missing },
	{ "no-exit-on-missing", has_no_exit_on_missing },
	{ "wp", has_wp },
	{ "wp-unpopulated", has_wp_unpopulated },
};

static bool has_linux(unsigned int major, unsigned int minor)
{
	unsigned int running_major = 0, running_minor = 0;
	struct utsname name;

	uname(&name);
	sscanf(name.release, "%u.%u", &running_major, &running_minor);
	return running_major > major || (running_major == major && running_minor >= minor);
}

bool need_is_met(const char *name)
{
	const __typeof__(needs[0]) *need;
	unsigned int major, minor;

	if (sscanf(name, "linux %u.%u", &major, &minor) == 2)
		return has_linux(major, minor);
	if (sscanf(name, "linux-before %u.%u", &major, &minor) == 2)
		return !has_linux(major, minor);
	need = find_named(needs, name);
	return need->is_met();
}

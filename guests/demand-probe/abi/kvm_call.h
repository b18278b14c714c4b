/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls of KVM that a probe cannot do without. */
#ifndef PAGETOLL_KVM_CALL_H
#define PAGETOLL_KVM_CALL_H

#include <sys/ioctl.h>

#include "../../lib/linux/fail.h"

/* Returns what the ioctl does; ends the guest when it fails. */
static inline int kvm_call(int fd, unsigned long request, void *argument, const char *what)
{
	int ret = ioctl(fd, request, argument);

	if (ret < 0)
		fail(what);
	return ret;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_PROBE_H
#define PAGETOLL_PROBE_H

#include "../lib/xen_probe_abi.h"

/* One ioctl of /dev/xen-probe; ends the guest when it fails. */
#define ask_probe(request, argument) probe_ioctl(request, argument, #request)

void probe_ioctl(unsigned long request, void *argument, const char *what);

#endif

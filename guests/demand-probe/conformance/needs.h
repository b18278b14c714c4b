/* SPDX-License-Identifier: GPL-2.0-only */
/* What a case cannot do without: Need of crates/conformance/src/kvm/case.rs, found out by trying, but for the kernel's version. */
#ifndef PAGETOLL_CONFORMANCE_NEEDS_H
#define PAGETOLL_CONFORMANCE_NEEDS_H

#include <stdbool.h>

/* Whether this kernel meets a need; ends the guest when there is none of that name. */
bool need_is_met(const char *name);

#endif

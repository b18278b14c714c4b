/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_FAIL_H
#define PAGETOLL_FAIL_H

#include "../report.h"

/* Reports that `what` failed with the current errno and ends the guest. */
void fail(const char *what) __attribute__((noreturn));

#endif

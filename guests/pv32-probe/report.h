/* SPDX-License-Identifier: GPL-2.0-only */
/* Results on Xen's console, in the form of guests/init/report.h. */
#ifndef PAGETOLL_PV32_REPORT_H
#define PAGETOLL_PV32_REPORT_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_of(const void *data, size_t size);

/* Prints one object; the format must make valid JSON. Knows %s, %u and %d of 32 bits, %U of 64 bits, %x (8 digits), %%. */
void report(const char *format, ...);

/* Reports that `what` failed with a negative errno and ends the guest. */
void fail(const char *what, long error) __attribute__((noreturn));

/* Powers the machine off. */
void power_off(void) __attribute__((noreturn));

#endif

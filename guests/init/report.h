/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Results go to the console, one JSON object a line: "@pagetoll CRC32 {...}". The CRC-32 (IEEE, as zlib's) of the
 * object lets the reader tell a line that kernel messages have cut into from a whole one.
 */
#ifndef PAGETOLL_REPORT_H
#define PAGETOLL_REPORT_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_of(const void *data, size_t size);

/* Prints one object; the format must make valid JSON. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports that `what` failed with errno and ends the guest. */
void fail(const char *what) __attribute__((noreturn));

/* Writes `text` as the inside of a JSON string into `out`, cut at `size`. */
void json_escape(char *out, size_t size, const char *text);

/* Powers the machine off. */
void power_off(void) __attribute__((noreturn));

#endif

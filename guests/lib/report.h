/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Results go to the console, one JSON object a line: "@pagetoll CRC32 {...}". By the CRC-32 of the object the reader
 * recognises a line that kernel messages have cut into.
 *
 * Formats are a subset of printf's: %d and %u, with l, ll or z, %x, which always has eight digits, and %s, which escapes
 * the text for the inside of a JSON string. Neither this nor report.c needs a C library.
 */
#ifndef PAGETOLL_REPORT_H
#define PAGETOLL_REPORT_H

#include <stddef.h>

/* Reports one object. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports one object piece by piece. */
void report_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_more(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_end(void);

/* Reports that `what` failed with an errno and ends the guest. */
void fail_with(const char *what, int error) __attribute__((noreturn));

/* Defined by each kind of guest. What ends one that has a user beside us is no more than its process. */
void console_write(const char *text, size_t size);
void end_guest(void) __attribute__((noreturn));

#endif

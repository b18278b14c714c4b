/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Small text files: orders, and those of sysfs, procfs and tracefs. */
#ifndef PAGETOLL_FILE_H
#define PAGETOLL_FILE_H

#include <stddef.h>

/* Replaces what a file holds; ends the guest when that fails. */
void write_file(const char *path, const char *text);

/* Reads the first line, without its end, of a file that may not exist: "" then. */
void read_line(const char *path, char *out, size_t size);

/* Calls `run` with each line that is not empty; ends the guest when the file cannot be opened. */
void for_each_line(const char *path, void (*run)(const char *line));

#endif

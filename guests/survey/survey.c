// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * survey FILE: takes note in FILE of the settings of the machine, or, where there is that file, reports each setting that
 * is not as it says: modules, sysctls, drivers of devices, hugepages, mounts, processes.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/named.h"

/* Of a path, and of what a file holds, the rest of which is not looked at: a line of both fits a report. */
#define PATH_SIZE 512
#define VALUE_SIZE 1024

/* These change by themselves, or by being read. */
static const char *const volatile_paths[] = {
	"/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/fs/inode-state",
	"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/", "/stats/",
};

/* A line for each setting. */
struct survey {
	char *lines;
	size_t length;
};

static bool is_volatile(const char *path)
{
	for (size_t i = 0; i < COUNT_OF(volatile_paths); i++)
		if (strstr(path, volatile_paths[i]))
			return true;
	return false;
}

/* A count of the memory manager, such as khugepaged/full_scans, which nobody can set. Pools of hugepages are looked at. */
static bool is_count(const char *path)
{
	struct stat status;

	return !strncmp(path, "/sys/kernel/mm/", 15) && strncmp(path, "/sys/kernel/mm/hugepages/", 25) &&
	       !stat(path, &status) && !(status.st_mode & 0222);
}

/* Adds a line, as printable text. */
static void append(struct survey *survey, const char *path, const char *value)
{
	size_t room = strlen(path) + strlen(value) + sizeof("=\n");
	char *at = realloc(survey->lines, survey->length + room);

	if (!at)
		fail("survey");
	survey->lines = at;
	at += survey->length;
	survey->length += sprintf(at, "%s=%s", path, value);
	for (; *at; at++)
		if (!isprint((unsigned char)*at))
			*at = ' ';
	strcpy(at, "\n");
	survey->length++;
}

static void add_file(struct survey *survey, const char *path)
{
	char value[VALUE_SIZE];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	if (fd < 0)
		return;
	got = read(fd, value, sizeof(value) - 1);
	close(fd);
	if (got < 0)
		return;
	value[got] = 0;
	append(survey, path, value);
}

static void add_link(struct survey *survey, const char *path)
{
	char target[PATH_SIZE];
	ssize_t got = readlink(path, target, sizeof(target) - 1);

	target[got > 0 ? got : 0] = 0;
	append(survey, path, target);
}

typedef void each(struct survey *survey, const char *folder, const struct dirent *entry);

static void for_each_entry(struct survey *survey, const char *folder, each *add)
{
	DIR *listing = opendir(folder);
	const struct dirent *entry;

	if (!listing)
		return;
	while ((entry = readdir(listing)))
		if (entry->d_name[0] != '.')
			add(survey, folder, entry);
	closedir(listing);
}

/* Every file below. */
static void add_tree(struct survey *survey, const char *folder, const struct dirent *entry)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	if (is_volatile(path))
		return;
	if (entry->d_type == DT_DIR)
		for_each_entry(survey, path, add_tree);
	else if (entry->d_type == DT_REG && !is_count(path))
		add_file(survey, path);
}

static void add_module(struct survey *survey, const char *folder, const struct dirent *entry)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	append(survey, path, "");
	strncat(path, "/parameters", sizeof(path) - strlen(path) - 1);
	for_each_entry(survey, path, add_tree);
}

static void add_device(struct survey *survey, const char *folder, const struct dirent *entry)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s/driver", folder, entry->d_name);
	add_link(survey, path);
	strncat(path, "_override", sizeof(path) - strlen(path) - 1);
	add_file(survey, path);
}

/* But for this one. The kernel's own threads have no command line. */
static void add_process(struct survey *survey, const char *folder, const struct dirent *entry)
{
	char path[PATH_SIZE], first[2] = "";
	FILE *words;

	if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid())
		return;
	snprintf(path, sizeof(path), "%s/%s/cmdline", folder, entry->d_name);
	words = fopen(path, "re");
	if (words && fgets(first, sizeof(first), words))
		append(survey, path, "");
	if (words)
		fclose(words);
}

static struct survey take(void)
{
	struct survey survey = { NULL, 0 };

	for_each_entry(&survey, "/proc/sys", add_tree);
	for_each_entry(&survey, "/sys/kernel/mm", add_tree);
	for_each_entry(&survey, "/sys/module", add_module);
	for_each_entry(&survey, "/sys/bus/pci/devices", add_device);
	for_each_entry(&survey, "/proc", add_process);
	add_file(&survey, "/proc/mounts");
	return survey;
}

/* What was noted; nothing where there is no such file. */
static struct survey noted(const char *path)
{
	struct survey survey = { NULL, 0 };
	FILE *file = fopen(path, "re");

	if (!file)
		return survey;
	if (getdelim(&survey.lines, &survey.length, 0, file) < 0)
		fail(path);
	fclose(file);
	return survey;
}

static void note(const struct survey *survey, const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file || fputs(survey->lines, file) < 0 || fclose(file))
		fail(path);
}

/* Reports the lines of one survey that another has not. */
static void report_missing(const struct survey *of, const struct survey *in)
{
	for (char *line = of->lines, *end; (end = strchr(line, '\n')); line = end + 1) {
		if (memmem(in->lines, strlen(in->lines), line, end + 1 - line))
			continue;
		*end = 0;
		report("{\"kind\":\"changed\",\"setting\":\"%s\"}", line);
		*end = '\n';
	}
}

int main(int count, char **arguments)
{
	struct survey before, now;

	if (count != 2)
		fail_with("usage: survey FILE", EINVAL);
	before = noted(arguments[1]);
	now = take();
	if (before.lines) {
		report_missing(&before, &now);
		report_missing(&now, &before);
	} else {
		note(&now, arguments[1]);
	}
	return 0;
}

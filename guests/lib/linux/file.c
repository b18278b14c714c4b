// SPDX-License-Identifier: MIT OR Apache-2.0
#include "file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

void read_line(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);

	out[got > 0 ? got : 0] = 0;
	out[strcspn(out, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

void for_each_line(const char *path, void (*run)(const char *line))
{
	FILE *file = fopen(path, "re");
	char line[512];

	if (!file)
		fail(path);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			run(line);
	}
	fclose(file);
}

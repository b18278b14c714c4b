// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#define LINE_SIZE 4096

uint32_t crc32_of(const void *data, size_t size)
{
	static uint32_t table[256];
	const unsigned char *bytes = data;
	uint32_t crc = 0xffffffff;

	if (!table[1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t value = i;

			for (int bit = 0; bit < 8; bit++)
				value = value & 1 ? 0xedb88320 ^ (value >> 1) : value >> 1;
			table[i] = value;
		}
	}
	while (size--)
		crc = table[(crc ^ *bytes++) & 0xff] ^ (crc >> 8);
	return ~crc;
}

static void write_all(const char *text, size_t size)
{
	while (size) {
		ssize_t done = write(STDOUT_FILENO, text, size);

		if (done < 0 && errno != EINTR)
			return;
		if (done > 0) {
			text += done;
			size -= done;
		}
	}
}

void report(const char *format, ...)
{
	char object[LINE_SIZE];
	char line[LINE_SIZE + 32];
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(object, sizeof(object), format, args);
	va_end(args);
	if (size < 0 || (size_t)size >= sizeof(object)) {
		errno = EMSGSIZE;
		fail("report");
	}
	/* A new line first: whatever the console held so far is not ours. */
	size = snprintf(line, sizeof(line), "\n@pagetoll %08x %s\n", crc32_of(object, size), object);
	write_all(line, size);
}

void json_escape(char *out, size_t size, const char *text)
{
	size_t used = 0;

	for (; *text && used + 8 < size; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			used += snprintf(out + used, size - used, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			used += snprintf(out + used, size - used, "\\u%04x", c);
		else
			out[used++] = c;
	}
	out[used] = 0;
}

void fail(const char *what)
{
	char escaped[512];
	int error = errno;

	json_escape(escaped, sizeof(escaped), what);
	report("{\"kind\":\"error\",\"what\":\"%s\",\"errno\":%d,\"message\":\"%s\"}", escaped, error, strerror(error));
	power_off();
}

void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

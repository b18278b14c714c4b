// SPDX-License-Identifier: GPL-2.0-only
#include "report.h"

#include <stdarg.h>

#include "xen.h"

#define LINE_SIZE 1024u
#define CONSOLEIO_WRITE 0
#define SHUTDOWN_POWEROFF 0

/* A line that is being made; what does not fit is left away, and the reader finds it garbled. */
struct line {
	char text[LINE_SIZE];
	size_t size;
};

uint32_t crc32_of(const void *data, size_t size)
{
	const uint8_t *bytes = data;
	uint32_t crc = 0xffffffff;

	while (size--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? 0xedb88320 ^ (crc >> 1) : crc >> 1;
	}
	return ~crc;
}

static void put(struct line *line, char c)
{
	if (line->size < LINE_SIZE)
		line->text[line->size++] = c;
}

static void put_text(struct line *line, const char *text)
{
	while (*text)
		put(line, *text++);
}

/* Divides by ten in place and returns the remainder: without libgcc there is no 64-bit division. */
static unsigned int divide_by_ten(uint64_t *value)
{
	uint32_t high = (uint32_t)(*value >> 32), low = (uint32_t)*value, rest = high % 10;

	high /= 10;
	__asm__("divl %[ten]" : "+a"(low), "+d"(rest) : [ten] "r"(10));
	*value = (uint64_t)high << 32 | low;
	return rest;
}

static void put_number(struct line *line, uint64_t value)
{
	char digits[20];
	unsigned int count = 0;

	do
		digits[count++] = '0' + (char)divide_by_ten(&value);
	while (value);
	while (count)
		put(line, digits[--count]);
}

static void put_hex(struct line *line, uint32_t value)
{
	for (int shift = 28; shift >= 0; shift -= 4)
		put(line, "0123456789abcdef"[value >> shift & 15]);
}

static void put_signed(struct line *line, int32_t value)
{
	if (value < 0)
		put(line, '-');
	put_number(line, value < 0 ? -(uint32_t)value : (uint32_t)value);
}

static void format_to(struct line *line, const char *format, va_list args)
{
	for (; *format; format++) {
		if (*format != '%') {
			put(line, *format);
			continue;
		}
		switch (*++format) {
		case 's': put_text(line, va_arg(args, const char *)); break;
		case 'u': put_number(line, va_arg(args, uint32_t)); break;
		case 'd': put_signed(line, va_arg(args, int32_t)); break;
		case 'U': put_number(line, va_arg(args, uint64_t)); break;
		case 'x': put_hex(line, va_arg(args, uint32_t)); break;
		default: put(line, *format);
		}
	}
}

static void write_line(const struct line *line)
{
	hypercall4(HYPERVISOR_CONSOLE_IO, CONSOLEIO_WRITE, line->size, (uint32_t)line->text, 0);
}

void report(const char *format, ...)
{
	static struct line object, line;
	va_list args;

	object.size = line.size = 0;
	va_start(args, format);
	format_to(&object, format, args);
	va_end(args);
	/* A new line first: whatever the console held so far is not ours. */
	put_text(&line, "\n@pagetoll ");
	put_hex(&line, crc32_of(object.text, object.size));
	put(&line, ' ');
	for (size_t i = 0; i < object.size; i++)
		put(&line, object.text[i]);
	put(&line, '\n');
	write_line(&line);
}

void fail(const char *what, long error)
{
	report("{\"kind\":\"error\",\"what\":\"%s\",\"errno\":%d,\"message\":\"refused\"}", what, (int32_t)-error);
	power_off();
}

void power_off(void)
{
	static uint32_t reason = SHUTDOWN_POWEROFF;

	for (;;)
		hypercall2(HYPERVISOR_SCHED_OP, SCHEDOP_SHUTDOWN, (uint32_t)&reason);
}

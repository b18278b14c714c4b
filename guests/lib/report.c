// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report.h"

#include <stdarg.h>
#include <stdint.h>

#include "crc32.h"

#define LINE_SIZE 4096u
#define EMSGSIZE 90

/* The console may hold part of another line: a new one first. */
#define HEAD "\n@pagetoll "
/* The head, the CRC and a space. */
#define HEAD_SIZE (sizeof(HEAD) - 1 + 8 + 1)

/* The line in work; a full one is not reported. */
static struct {
	char text[LINE_SIZE];
	size_t size;
} line;

static void put(char c)
{
	if (line.size < LINE_SIZE)
		line.text[line.size++] = c;
}

static void put_text(const char *text)
{
	while (*text)
		put(*text++);
}

static void put_hex(uint32_t value, int digits)
{
	while (digits--)
		put("0123456789abcdef"[value >> 4 * digits & 15]);
}

static void put_escaped(const char *text)
{
	for (; *text; text++) {
		unsigned char c = *text;

		if (c < 0x20 || c > 0x7e) {
			put_text("\\u");
			put_hex(c, 4);
			continue;
		}
		if (c == '"' || c == '\\')
			put('\\');
		put(c);
	}
}

/* Divides in place and returns the remainder: a 32-bit guest has no library function for it. */
static unsigned int divide_by_ten(uint64_t *value)
{
#ifdef __aarch64__
	unsigned int rest = *value % 10;

	*value /= 10;
#else
	uint32_t high = *value >> 32, low = *value, rest = high % 10;

	high /= 10;
	__asm__("divl %[ten]" : "+a"(low), "+d"(rest) : [ten] "r"(10));
	*value = (uint64_t)high << 32 | low;
#endif
	return rest;
}

static void put_number(uint64_t value)
{
	char digits[20];
	unsigned int count = 0;

	do
		digits[count++] = '0' + divide_by_ten(&value);
	while (value);
	while (count)
		put(digits[--count]);
}

static void put_signed(int64_t value)
{
	if (value < 0)
		put('-');
	put_number(value < 0 ? -(uint64_t)value : (uint64_t)value);
}

#define SIGNED(args, longs) \
	((longs) == 0 ? va_arg(args, int) : (longs) == 1 ? va_arg(args, long) : va_arg(args, long long))
#define UNSIGNED(args, longs)                      \
	((longs) == 0 ? va_arg(args, unsigned int) : \
	 (longs) == 1 ? va_arg(args, unsigned long) : va_arg(args, unsigned long long))

static void put_format(const char *format, va_list args)
{
	for (; *format; format++) {
		int longs = 0;

		if (*format != '%') {
			put(*format);
			continue;
		}
		/* A size_t is as long as a long. */
		for (format++; *format == 'l' || *format == 'z'; format++)
			longs++;
		switch (*format) {
		case 's': put_escaped(va_arg(args, const char *)); break;
		case 'd': put_signed(SIGNED(args, longs)); break;
		case 'u': put_number(UNSIGNED(args, longs)); break;
		case 'x': put_hex(va_arg(args, unsigned int), 8); break;
		}
	}
}

#define PUT_FORMAT(format)                    \
	do {                                  \
		va_list args;                 \
		va_start(args, format);       \
		put_format(format, args);     \
		va_end(args);                 \
	} while (0)

void report_begin(const char *format, ...)
{
	line.size = HEAD_SIZE;
	PUT_FORMAT(format);
}

void report_more(const char *format, ...)
{
	PUT_FORMAT(format);
}

void report_end(void)
{
	size_t size = line.size;

	if (size == LINE_SIZE)
		fail_with("report a line of more than 4 KiB", EMSGSIZE);
	line.size = 0;
	put_text(HEAD);
	put_hex(crc32_of(line.text + HEAD_SIZE, size - HEAD_SIZE), 8);
	put(' ');
	line.size = size;
	put('\n');
	console_write(line.text, line.size);
}

void report(const char *format, ...)
{
	line.size = HEAD_SIZE;
	PUT_FORMAT(format);
	report_end();
}

void fail_with(const char *what, int error)
{
	report("{\"kind\":\"error\",\"what\":\"%s\",\"errno\":%d}", what, error);
	end_guest();
}

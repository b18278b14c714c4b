// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fail.h"

#include <errno.h>
#include <unistd.h>

void fail(const char *what)
{
	fail_with(what, errno);
}

void console_write(const char *text, size_t size)
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

// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "userfaultfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "answer.h"

#define USERFAULTFDS 4
/* What the last field of an argument holds before the call: neither a number of bytes nor an errno. */
#define UNTOUCHED INT64_MIN

/* A descriptor and one, so that 0 is none. */
static int opened[USERFAULTFDS];

static int *slot_of(uint64_t number)
{
	if (number >= USERFAULTFDS)
		fail_with("userfaultfds of a case", E2BIG);
	return &opened[number];
}

/* -1 where it is closed, of which every call says EBADF. */
static int fd_of(const uint64_t *arguments)
{
	return *slot_of(arguments[0]) - 1;
}

static struct uffdio_range range_of(const uint64_t *arguments)
{
	return (struct uffdio_range){ arguments[1], arguments[2] };
}

void uffd_open(const uint64_t *arguments)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | (int)arguments[1]);

	give_returned(fd);
	*slot_of(arguments[0]) = fd + 1;
}

static int close_uffd(int *slot)
{
	int ret = close(*slot - 1);

	*slot = 0;
	return ret;
}

void uffd_close(const uint64_t *arguments)
{
	give_returned(close_uffd(slot_of(arguments[0])));
}

void uffd_close_all(void)
{
	for (unsigned int i = 0; i < USERFAULTFDS; i++)
		if (opened[i])
			close_uffd(&opened[i]);
}

uint64_t uffd_features(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		fail("open a userfaultfd");
	close(fd);
	return api.features;
}

void uffd_api(const uint64_t *arguments)
{
	struct uffdio_api api = { .api = arguments[1], .features = arguments[2] };

	give_returned(ioctl(fd_of(arguments), UFFDIO_API, &api));
}

void uffd_register(const uint64_t *arguments)
{
	struct uffdio_register range = { .range = range_of(arguments), .mode = arguments[3] };

	if (ioctl(fd_of(arguments), UFFDIO_REGISTER, &range) < 0)
		give_returned(-1);
	else
		give((struct answer){ ANSWER_REGISTERED, { range.ioctls } });
}

void uffd_unregister(const uint64_t *arguments)
{
	struct uffdio_range range = range_of(arguments);

	give_returned(ioctl(fd_of(arguments), UFFDIO_UNREGISTER, &range));
}

void uffd_wake(const uint64_t *arguments)
{
	struct uffdio_range range = range_of(arguments);

	give_returned(ioctl(fd_of(arguments), UFFDIO_WAKE, &range));
}

void uffd_writeprotect(const uint64_t *arguments)
{
	struct uffdio_writeprotect protect = { .range = range_of(arguments), .mode = arguments[3] };

	give_returned(ioctl(fd_of(arguments), UFFDIO_WRITEPROTECT, &protect));
}

static void give_filled(int ret, int64_t field)
{
	uint64_t error = ret < 0 ? errno : 0;

	if (field == UNTOUCHED)
		give((struct answer){ ANSWER_UNTOUCHED, { error } });
	else
		give((struct answer){ ANSWER_FILLED, { error, field } });
}

void uffd_copy(const uint64_t *arguments)
{
	struct uffdio_copy copy = {
		.dst = arguments[1], .len = arguments[2], .src = arguments[3], .mode = arguments[4], .copy = UNTOUCHED,
	};
	int ret = ioctl(fd_of(arguments), UFFDIO_COPY, &copy);

	give_filled(ret, copy.copy);
}

void uffd_zeropage(const uint64_t *arguments)
{
	struct uffdio_zeropage zero = {
		.range = range_of(arguments), .mode = arguments[3], .zeropage = UNTOUCHED,
	};
	int ret = ioctl(fd_of(arguments), UFFDIO_ZEROPAGE, &zero);

	give_filled(ret, zero.zeropage);
}

void uffd_continue(const uint64_t *arguments)
{
	struct uffdio_continue resume = {
		.range = range_of(arguments), .mode = arguments[3], .mapped = UNTOUCHED,
	};
	int ret = ioctl(fd_of(arguments), UFFDIO_CONTINUE, &resume);

	give_filled(ret, resume.mapped);
}

void uffd_poll(const uint64_t *arguments)
{
	struct pollfd polled = { .fd = fd_of(arguments), .events = POLLIN };

	if (poll(&polled, 1, 0) < 0)
		give_returned(-1);
	else
		give((struct answer){ ANSWER_POLLED, { polled.revents } });
}

void uffd_read(const uint64_t *arguments)
{
	struct uffd_msg message;
	size_t room = arguments[1] < sizeof(message) ? arguments[1] : sizeof(message);

	if (read(fd_of(arguments), &message, room) < 0) {
		give_returned(-1);
		return;
	}
	if (message.event != UFFD_EVENT_PAGEFAULT)
		fail_with("an event that no case asks for", EINVAL);
	give((struct answer){ ANSWER_RECEIVED, { message.arg.pagefault.address, message.arg.pagefault.flags } });
}

/* As userfaultfd_show_fdinfo() prints them. */
static struct waiting waiting_in(int fd)
{
	struct waiting waiting;
	char path[64], line[64];
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	if (!file)
		fail(path);
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "pending: %lu", &waiting.pending) == 1;
		found += sscanf(line, "total: %lu", &waiting.total) == 1;
	}
	fclose(file);
	if (found != 2)
		fail_with("the queues of a userfaultfd in fdinfo", EPROTO);
	return waiting;
}

struct waiting uffd_waiting(void)
{
	struct waiting sum = { 0 };

	for (unsigned int i = 0; i < USERFAULTFDS; i++) {
		struct waiting waiting = { 0 };

		if (opened[i])
			waiting = waiting_in(opened[i] - 1);
		sum.pending += waiting.pending;
		sum.total += waiting.total;
	}
	return sum;
}

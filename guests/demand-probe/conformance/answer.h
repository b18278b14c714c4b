/* SPDX-License-Identifier: GPL-2.0-only */
/* Answers to the steps of a case, as the result line of the case has them. */
#ifndef PAGETOLL_CONFORMANCE_ANSWER_H
#define PAGETOLL_CONFORMANCE_ANSWER_H

#include <stdint.h>

/* With the numbers that belong to each. */
enum answer_kind {
	ANSWER_DONE,
	/* errno */
	ANSWER_REFUSED,
	/* uffdio_register.ioctls */
	ANSWER_REGISTERED,
	/* errno or 0, and the last field of the argument, which the kernel wrote */
	ANSWER_FILLED,
	/* errno: the kernel left that field alone */
	ANSWER_UNTOUCHED,
	/* revents */
	ANSWER_POLLED,
	/* the address of a fault, UFFD_PAGEFAULT_FLAG_* */
	ANSWER_RECEIVED,
	/* the word that was read or written */
	ANSWER_WORD,
	ANSWER_SLEEPS,
	ANSWER_IDLE,
	/* address, bytes */
	ANSWER_MMIO_READ,
	/* address, word */
	ANSWER_MMIO_WRITE,
	/* EFAULT without an exit reason */
	ANSWER_RUN_FAILED,
	/* KVM_EXIT_MEMORY_FAULT: address, size, flags */
	ANSWER_MEMORY_FAULT,
	/* errno or 0 and the exit reason of a KVM_RUN that came back in another way */
	ANSWER_OTHER,
};

struct answer {
	enum answer_kind kind;
	uint64_t numbers[3];
};

/* Adds an answer to the result line. */
void give(struct answer answer);

/* Adds ANSWER_DONE, or ANSWER_REFUSED with errno when `ret`, of a system call, is negative. */
void give_returned(int ret);

#endif

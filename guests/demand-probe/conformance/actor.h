/* SPDX-License-Identifier: GPL-2.0-only */
/* Who touches memory: a thread of its own, which may sleep while the case goes on. */
#ifndef PAGETOLL_CONFORMANCE_ACTOR_H
#define PAGETOLL_CONFORMANCE_ACTOR_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "answer.h"
#include "guest.h"

/* Of each kind. */
#define ACTORS 4

enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_RUN };

struct job {
	enum access access;
	/* An address of the process or, of a vCPU, of its guest. */
	uint64_t at;
	/* To write or, for KVM_RUN, what kvm_run.mmio.data holds. */
	uint64_t word;
};

enum doing { DOING_NOTHING, DOING_JOB, DOING_FINISHED };

struct actor {
	bool is_made, is_vcpu;
	struct vcpu vcpu;
	pthread_t thread;
	/* Of the thread, from its first job on. */
	_Atomic pid_t tid;
	sem_t started;
	_Atomic enum doing doing;
	struct job job;
	struct answer answer;
};

enum actor_kind { ACTOR_THREAD, ACTOR_VCPU };

extern struct actor actors[2][ACTORS];

/* Steps, of a thread and of a vCPU: each answers with what came of the access, or that the actor sleeps. */
void thread_read(const uint64_t *arguments);
void thread_write(const uint64_t *arguments);
void thread_await(const uint64_t *arguments);
void guest_read(const uint64_t *arguments);
void guest_write(const uint64_t *arguments);
void guest_run(const uint64_t *arguments);
void guest_await(const uint64_t *arguments);

#endif

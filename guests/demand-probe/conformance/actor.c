// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "actor.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/linux/fail.h"
#include "../../lib/linux/process.h"
#include "settled.h"

#define WORD sizeof(uint64_t)

struct actor actors[2][ACTORS];

static struct answer moved(ssize_t bytes, uint64_t word)
{
	if (bytes < 0)
		return (struct answer){ ANSWER_REFUSED, { errno } };
	if (bytes != WORD)
		return (struct answer){ ANSWER_OTHER, { EIO, 0 } };
	return (struct answer){ ANSWER_WORD, { word } };
}

static void must_move(ssize_t bytes)
{
	if (bytes != WORD)
		fail("move a word through a pipe");
}

/* Through a pipe, so that memory which cannot be reached is an error of read(2) or write(2), and no signal. */
static struct answer by_system_call(const struct job *job)
{
	uint64_t word = job->word;
	struct answer answer;
	int ends[2];

	if (job->access == ACCESS_RUN)
		return (struct answer){ ANSWER_IDLE };
	if (pipe(ends) < 0)
		fail("pipe");
	if (job->access == ACCESS_READ) {
		answer = moved(write(ends[1], (void *)job->at, WORD), 0);
		if (answer.kind == ANSWER_WORD)
			must_move(read(ends[0], &answer.numbers[0], WORD));
	} else {
		must_move(write(ends[1], &word, WORD));
		answer = moved(read(ends[0], (void *)job->at, WORD), word);
	}
	close(ends[0]);
	close(ends[1]);
	return answer;
}

static struct answer by_vcpu(const struct vcpu *vcpu, const struct job *job)
{
	switch (job->access) {
	case ACCESS_READ:
		return vcpu_read(vcpu, job->at);
	case ACCESS_WRITE:
		return vcpu_write(vcpu, job->at, job->word);
	default:
		return vcpu_run(vcpu, job->word);
	}
}

static void *act(void *argument)
{
	struct actor *actor = argument;

	actor->tid = syscall(SYS_gettid);
	for (;;) {
		while (sem_wait(&actor->started) < 0)
			;
		actor->answer = actor->is_vcpu ? by_vcpu(&actor->vcpu, &actor->job) : by_system_call(&actor->job);
		actor->doing = DOING_FINISHED;
	}
	return NULL;
}

static struct actor *actor_of(enum actor_kind kind, uint64_t number)
{
	if (number >= ACTORS)
		fail_with("actors of a case", E2BIG);
	return &actors[kind][number];
}

static void make(struct actor *actor, enum actor_kind kind, uint64_t number)
{
	actor->is_made = true;
	actor->is_vcpu = kind == ACTOR_VCPU;
	if (actor->is_vcpu)
		actor->vcpu = guest_add_vcpu(number);
	if (sem_init(&actor->started, 0, 0) < 0)
		fail("sem_init");
	actor->thread = start_thread(act, actor);
}

/* What came of the last job. */
static void await(enum actor_kind kind, uint64_t number)
{
	const struct actor *actor = actor_of(kind, number);

	settle();
	if (actor->doing == DOING_NOTHING)
		give((struct answer){ ANSWER_IDLE });
	else if (actor->doing == DOING_JOB)
		give((struct answer){ ANSWER_SLEEPS });
	else
		give(actor->answer);
}

/* A case that starts a job while the last one sleeps is wrong, and gets no answer to the last one. */
static void start(enum actor_kind kind, uint64_t number, struct job job)
{
	struct actor *actor = actor_of(kind, number);

	if (!actor->is_made)
		make(actor, kind, number);
	if (actor->doing == DOING_JOB)
		fail_with("a job for an actor that sleeps", EBUSY);
	actor->job = job;
	actor->doing = DOING_JOB;
	sem_post(&actor->started);
	await(kind, number);
}

void thread_read(const uint64_t *arguments)
{
	start(ACTOR_THREAD, arguments[0], (struct job){ ACCESS_READ, arguments[1], 0 });
}

void thread_write(const uint64_t *arguments)
{
	start(ACTOR_THREAD, arguments[0], (struct job){ ACCESS_WRITE, arguments[1], arguments[2] });
}

void thread_await(const uint64_t *arguments)
{
	await(ACTOR_THREAD, arguments[0]);
}

void guest_read(const uint64_t *arguments)
{
	start(ACTOR_VCPU, arguments[0], (struct job){ ACCESS_READ, arguments[1], 0 });
}

void guest_write(const uint64_t *arguments)
{
	start(ACTOR_VCPU, arguments[0], (struct job){ ACCESS_WRITE, arguments[1], arguments[2] });
}

void guest_run(const uint64_t *arguments)
{
	start(ACTOR_VCPU, arguments[0], (struct job){ ACCESS_RUN, 0, arguments[1] });
}

void guest_await(const uint64_t *arguments)
{
	await(ACTOR_VCPU, arguments[0]);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
#include "process.h"

#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"

pid_t fork_or_fail(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	return child;
}

int wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		fail("wait for a child");
	return status;
}

pthread_t start_thread(void *(*run)(void *argument), void *argument)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run, argument);

	if (error)
		fail_with("start a thread", error);
	return thread;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* A program that does what its only argument says, to a guest that counts it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *what = argv[1];

	if (!strcmp(what, "fork"))
		for (;;)
			fork();
	if (!strcmp(what, "memory"))
		for (;;)
			memset(malloc(1 << 20), 1, 1 << 20);
	if (!strcmp(what, "output"))
		while (puts("a line of sixty-three characters, until there is no room for it") >= 0)
			;
	if (!strcmp(what, "halt"))
		reboot(RB_HALT_SYSTEM);
	if (!strcmp(what, "restart"))
		reboot(RB_AUTOBOOT);
	if (!strcmp(what, "avx"))
		__asm__ volatile("vpxor %ymm0, %ymm0, %ymm0");
	if (!strcmp(what, "kill"))
		kill(-1, SIGKILL);
	if (!strcmp(what, "module"))
		return syscall(SYS_finit_module, open(argv[0], O_RDONLY), "", 0) ? (perror("finit_module"), 3) : 0;
	if (!strcmp(what, "sleep"))
		pause();
	if (!strcmp(what, "spin"))
		for (;;)
			;
	if (!strcmp(what, "mem")) {
		int fd = open("/dev/mem", O_RDWR);
		char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0xf0000);
		if (fd < 0 || p == MAP_FAILED)
			return perror("/dev/mem"), 4;
		memset(p, 0, 1 << 16);
	}
	if (!strcmp(what, "panic")) {
		int fd = open("/proc/sysrq-trigger", O_WRONLY);
		write(fd, "c", 1);
	}
	fprintf(stderr, "nothing of that kind: %s\n", what);
	return 5;
}

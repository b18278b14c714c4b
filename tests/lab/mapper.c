/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Maps and unmaps the first 512 guest frames of a domain, as libxenforeignmemory does. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGES 512
#define SIZE (PAGES * 4096)

/* include/uapi/xen/privcmd.h */
struct batch {
	unsigned int num;
	uint16_t domain;
	uint64_t address;
	const uint64_t *frames;
	int *errors;
};

int main(int argc, char **argv)
{
	static uint64_t frames[PAGES];
	static int errors[PAGES];
	int fd = open("/dev/xen/privcmd", O_RDWR);
	char *pages = mmap(0, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	struct batch batch = { PAGES, atoi(argv[1]), (uint64_t)pages, frames, errors };

	for (int i = 0; i < PAGES; i++)
		frames[i] = i;
	if (ioctl(fd, _IOC(_IOC_NONE, 'P', 4, sizeof(batch)), &batch) < 0) {
		perror("IOCTL_PRIVCMD_MMAPBATCH_V2");
		return 1;
	}
	for (int i = 0; i < PAGES; i++)
		if (errors[i] || pages[i * 4096]) {
			fprintf(stderr, "frame %d: error %d\n", i, errors[i]);
			return 1;
		}
	return munmap(pages, SIZE);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Writes to pages and unmaps them, to be recorded: unmap PAGES */
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_SIZE 4096

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) * PAGE_SIZE : 0;
	volatile char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || madvise((void *)pages, size, MADV_NOHUGEPAGE))
		return 1;
	for (size_t i = 0; i < size; i += PAGE_SIZE)
		pages[i] = 1;
	return munmap((void *)pages, size) != 0;
}

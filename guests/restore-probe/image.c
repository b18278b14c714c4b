// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/linux/fail.h"

#define FOLDER "/image"
#define FILE_NAME FOLDER "/memory"

/* Knuth's multiplicative hash: neighbours differ in most bits. */
#define SCATTER 2654435761u

/* ramfs reads, maps and reads ahead by the functions of the page cache, as file systems on disks do; tmpfs has its own. */
static void mount_ramfs(void)
{
	static int is_mounted;

	if (is_mounted)
		return;
	mkdir(FOLDER, 0700);
	if (mount("image", FOLDER, "ramfs", 0, NULL) < 0)
		fail("mount a ramfs");
	is_mounted = 1;
}

static void write_all(int file, const char *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t written = pwrite(file, from + done, bytes - done, done);

		if (written <= 0)
			fail("write an image");
		done += written;
	}
}

void image_open(struct image *image, uint64_t pages)
{
	static uint32_t images;
	size_t bytes = pages * PAGE;
	uint32_t first = ++images * SCATTER;

	mount_ramfs();
	*image = (struct image){ .file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), .pages = pages };
	if (image->file < 0)
		fail("make an image");
	image->words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image->words == MAP_FAILED)
		fail("map the words of an image");
	for (uint64_t word = 0; word < pages * PAGE_WORDS; word++)
		image->words[word] = first + (uint32_t)word * SCATTER;
	write_all(image->file, (const char *)image->words, bytes);
}

void image_close(struct image *image)
{
	munmap(image->words, image->pages * PAGE);
	close(image->file);
	unlink(FILE_NAME);
}

void image_lose(const struct image *image, uint64_t page)
{
	static const char zeroes[PAGE];

	if (pwrite(image->file, zeroes, PAGE, page * PAGE) != PAGE)
		fail("clear a page of an image");
}

void image_read(const struct image *image, uint64_t page, uint64_t pages, void *to)
{
	size_t bytes = pages * PAGE;

	for (size_t done = 0; done < bytes;) {
		ssize_t found = pread(image->file, (char *)to + done, bytes - done, page * PAGE + done);

		if (found < 0 && errno == EINTR)
			continue;
		if (found <= 0)
			fail("read an image");
		done += found;
	}
}

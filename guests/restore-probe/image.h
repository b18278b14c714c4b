/* SPDX-License-Identifier: GPL-2.0-only */
/* The image of a guest's memory: a file in a ramfs, which is all page cache. */
#ifndef PAGETOLL_RESTORE_IMAGE_H
#define PAGETOLL_RESTORE_IMAGE_H

#include <stdint.h>

#include "../lib/linux/page.h"

#define PAGE_WORDS (PAGE / sizeof(uint32_t))

struct image {
	int file;
	uint64_t pages;
	/* The words that the guest's memory has to hold: those of the image, and what the guest has written since. */
	uint32_t *words;
};

/* Writes an image whose words no image before it had at their places. */
void image_open(struct image *image, uint64_t pages);
void image_close(struct image *image);

/* Clears a page of the file, and not of what memory has to hold. */
void image_lose(const struct image *image, uint64_t page);

/* Reads pages of the file; ends the guest where it cannot. */
void image_read(const struct image *image, uint64_t page, uint64_t pages, void *to);

#endif

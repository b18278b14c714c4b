/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PAGETOLL_BULK_H
#define PAGETOLL_BULK_H

/* The file, which exists, that bulk data goes to. */
void bulk_open(const char *path);

#endif

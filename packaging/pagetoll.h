/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks for `pagetoll count --marks`: what lies between a PAGETOLL_BEGIN() and the next PAGETOLL_END() is one operation. Each is
 * a 7-byte NOP without effect outside the lab. x86-64 only.
 */
#ifndef PAGETOLL_H
#define PAGETOLL_H

#define PAGETOLL_MARK(mark) __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long " #mark : : : "memory")

#define PAGETOLL_BEGIN() PAGETOLL_MARK(0x50540000)
#define PAGETOLL_END() PAGETOLL_MARK(0x50550000)

#endif

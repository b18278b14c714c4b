/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks for `pagetoll count --marks`: what lies between a PAGETOLL_BEGIN() and the next PAGETOLL_END() is one operation. Each is
 * without effect outside the lab: on x86-64 a 7-byte NOP, on arm64 a MOVZ to XZR.
 */
#ifndef PAGETOLL_H
#define PAGETOLL_H

#if defined(__x86_64__)
#define PAGETOLL_MARK(mark) __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long " #mark "0000" : : : "memory")
#elif defined(__aarch64__)
#define PAGETOLL_MARK(mark) __asm__ volatile("movz xzr, #" #mark ", lsl #16" : : : "memory")
#else
#error "pagetoll.h: x86-64 and arm64 only"
#endif

#define PAGETOLL_BEGIN() PAGETOLL_MARK(0x5054)
#define PAGETOLL_END() PAGETOLL_MARK(0x5055)

#endif

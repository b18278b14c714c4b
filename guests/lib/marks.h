/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks around what is timed.
 *
 * In Xen's trace a mark is a sched_op hypercall whose command no Xen implements: it does nothing, and Xen records the
 * command (xen/common/trace.c, __trace_hypercall, since 4.3). For QEMU's plugin that counts instructions
 * (crates/lab-vm/counter) it is a long NOP with the mark as its displacement; on arm64 a MOVZ of its upper half to XZR.
 */
#ifndef PAGETOLL_MARKS_H
#define PAGETOLL_MARKS_H

/* In the trace the step's number is added to these. */
#define MARK_BEGIN 0x50540000u
#define MARK_END 0x50550000u
/* The order's next step begins; for the plugin only. */
#define MARK_STEP 0x50560000u

/* A step that is not marked in the trace. */
#define NO_MARK 0xffffffffu

#ifdef __aarch64__
#define MARK_NOP(mark) __asm__ volatile("movz xzr, %0, lsl #16" : : "i"((mark) >> 16) : "memory")
#else
#define MARK_NOP(mark) __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long %c0" : : "i"(mark) : "memory")
#endif

#endif

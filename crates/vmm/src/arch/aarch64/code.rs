//! The guest's programs for arm64. Each ends with a store to the address in X3, which user space gets as MMIO.
//!
//! Registers on entry: X0 the first byte of the vCPU's pages, X1 its order, X2 the number of pages, X3 the address, X4 by
//! how much a word differs from the one before it, X5 the first word, X6 zero. An entry of the order is the offset of
//! a page in bytes, with bit 0 set where the page is written. X6 is the result.
//!
//! The stores that are MMIO neither index nor pair registers: KVM gets what they store from the syndrome
//! (ESR_EL2.ISS.ISV).

#![allow(
    unsafe_code,
    reason = "code of this program is read as the bytes that it is"
)]

use std::arch::global_asm;
use std::slice;

use crate::guest::Program;

/// The program's code, which is independent of its address.
pub(crate) fn code(program: Program) -> &'static [u8] {
    let (start, end) = match program {
        Program::Warm => (&raw const pagetoll_warm, &raw const pagetoll_touch),
        // No clock is read: EL0 may not where the guest has not allowed it.
        Program::Touch | Program::TimedTouch => {
            (&raw const pagetoll_touch, &raw const pagetoll_stamp)
        }
        Program::Stamp => (&raw const pagetoll_stamp, &raw const pagetoll_verify),
        Program::Verify => (&raw const pagetoll_verify, &raw const pagetoll_leave),
        Program::Leave => (&raw const pagetoll_leave, &raw const pagetoll_end),
    };
    // SAFETY: both are labels of one block of read-only data below, the first before the second.
    unsafe { slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// The exception vectors, one block of 2 KiB: every exception is an exit to 8 bytes after the address that ends programs.
pub(super) fn vectors() -> &'static [u8] {
    let (start, end) = (&raw const pagetoll_vectors, &raw const pagetoll_vectors_end);
    // SAFETY: as above.
    unsafe { slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

unsafe extern "C" {
    static pagetoll_warm: u8;
    static pagetoll_touch: u8;
    static pagetoll_stamp: u8;
    static pagetoll_verify: u8;
    static pagetoll_leave: u8;
    static pagetoll_end: u8;
    static pagetoll_vectors: u8;
    static pagetoll_vectors_end: u8;
}

global_asm!(
    r#"
    .pushsection .rodata.pagetoll, "a"
    .balign 4
    .hidden pagetoll_warm, pagetoll_touch, pagetoll_stamp, pagetoll_verify, pagetoll_leave, pagetoll_end
    .hidden pagetoll_vectors, pagetoll_vectors_end
    .globl pagetoll_warm, pagetoll_touch, pagetoll_stamp, pagetoll_verify, pagetoll_leave, pagetoll_end
    .globl pagetoll_vectors, pagetoll_vectors_end
pagetoll_warm:
2:  ldr x7, [x1], #8
    subs x2, x2, #1
    b.ne 2b
    str wzr, [x3]
    b .

pagetoll_touch:
2:  ldr x7, [x1], #8
    tbnz x7, #0, 3f
    ldr x8, [x0, x7]
    add x6, x6, x8
    subs x2, x2, #1
    b.ne 2b
    b 4f
    // The entry is odd: 7 more is the second word.
3:  add x8, x0, x7
    stur x7, [x8, #7]
    subs x2, x2, #1
    b.ne 2b
4:  str wzr, [x3]
    b .

pagetoll_stamp:
2:  ldr x7, [x1], #8
    str x5, [x0, x7]
    add x5, x5, x4
    subs x2, x2, #1
    b.ne 2b
    str wzr, [x3]
    b .

pagetoll_verify:
    // X9: the address of a word, X10: what it should be, X11: that of the first, X12: words to go, X13: one was wrong.
2:  ldr x7, [x1], #8
    and x9, x7, #0xfffffffffffffffe
    lsr x10, x9, #3
    madd x10, x10, x4, x5
    add x9, x9, x0
    mov x11, x9
    mov x12, #512
    mov x13, xzr
3:  ldr x8, [x9]
    cmp x8, x10
    b.ne 6f
4:  add x9, x9, #8
    add x10, x10, x4
    subs x12, x12, #1
    b.ne 3b
    // Of a written page, the second word must be what was written.
    tbz x7, #0, 5f
    ldr x8, [x11, #8]
    cmp x8, x7
    b.eq 5f
    mov x13, #1
5:  add x6, x6, x13
    subs x2, x2, #1
    b.ne 2b
    b 8f
6:  tbz x7, #0, 7f
    cmp x12, #511
    b.eq 4b
7:  mov x13, #1
    b 4b
8:  str wzr, [x3]
    b .

pagetoll_leave:
2:  str wzr, [x3]
    b 2b
pagetoll_end:

pagetoll_vectors:
    .rept 16
    str wzr, [x3, #8]
    b .
    .rept 30
    nop
    .endr
    .endr
pagetoll_vectors_end:
    .popsection
    "#
);

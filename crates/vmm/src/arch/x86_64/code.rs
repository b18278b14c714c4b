//! The guest's programs for x86-64. Each ends with a write to [`DONE_PORT`].
//!
//! Registers on entry: RDI the first byte of the vCPU's pages, RSI its order, RCX the number of pages, DX the port,
//! R8 by how much a word differs from the one before it, R9 the first word. An entry of the order is the offset of a
//! page in bytes, with bit 0 set where the page is written. RBX is the result, R15 the longest time of one page in ticks of
//! the TSC.

#![allow(
    unsafe_code,
    reason = "code of this program is read as the bytes that it is"
)]

use std::arch::global_asm;
use std::slice;

use crate::guest::Program;

/// The port that ends a program: POST codes, which no machine answers on.
pub(super) const DONE_PORT: u16 = 0x80;

/// The program's code, which is independent of its address.
pub(crate) fn code(program: Program) -> &'static [u8] {
    let (start, end) = match program {
        Program::Warm => (&raw const pagetoll_warm, &raw const pagetoll_touch),
        Program::Touch => (&raw const pagetoll_touch, &raw const pagetoll_timed_touch),
        Program::TimedTouch => (&raw const pagetoll_timed_touch, &raw const pagetoll_stamp),
        Program::Stamp => (&raw const pagetoll_stamp, &raw const pagetoll_verify),
        Program::Verify => (&raw const pagetoll_verify, &raw const pagetoll_leave),
        Program::Leave => (&raw const pagetoll_leave, &raw const pagetoll_end),
    };
    // SAFETY: both are labels of one block of read-only data below, the first before the second.
    unsafe { slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

unsafe extern "C" {
    static pagetoll_warm: u8;
    static pagetoll_touch: u8;
    static pagetoll_timed_touch: u8;
    static pagetoll_stamp: u8;
    static pagetoll_verify: u8;
    static pagetoll_leave: u8;
    static pagetoll_end: u8;
}

global_asm!(
    r#"
    .pushsection .rodata.pagetoll, "a"
    .hidden pagetoll_warm, pagetoll_touch, pagetoll_timed_touch, pagetoll_stamp, pagetoll_verify, pagetoll_leave, pagetoll_end
    .globl pagetoll_warm, pagetoll_touch, pagetoll_timed_touch, pagetoll_stamp, pagetoll_verify, pagetoll_leave, pagetoll_end
pagetoll_warm:
2:  mov rax, [rsi]
    add rsi, 8
    dec rcx
    jnz 2b
    out dx, al
    hlt

pagetoll_touch:
2:  mov rax, [rsi]
    add rsi, 8
    test al, 1
    jnz 3f
    add rbx, [rdi + rax]
    dec rcx
    jnz 2b
    jmp 4f
    // The entry is odd: 7 more is the second word.
3:  mov [rdi + rax + 7], rax
    dec rcx
    jnz 2b
4:  out dx, al
    hlt

pagetoll_timed_touch:
    // R11: an entry, R10: the time before its page, R12: the port. A page that faults is waited for before RDTSC is executed.
    mov r12, rdx
    xor r15, r15
2:  mov r11, [rsi]
    add rsi, 8
    rdtsc
    shl rdx, 32
    or rdx, rax
    mov r10, rdx
    test r11b, 1
    jnz 3f
    add rbx, [rdi + r11]
    jmp 4f
3:  mov [rdi + r11 + 7], r11
4:  rdtsc
    shl rdx, 32
    or rdx, rax
    sub rdx, r10
    cmp rdx, r15
    cmova r15, rdx
    dec rcx
    jnz 2b
    mov rdx, r12
    out dx, al
    hlt

pagetoll_stamp:
2:  mov rax, [rsi]
    add rsi, 8
    mov [rdi + rax], r9
    add r9, r8
    dec rcx
    jnz 2b
    out dx, al
    hlt

pagetoll_verify:
    // R10: the address of a word, R11: what it should be, R12: that of the first, R13: words to go, R14: one was wrong.
2:  mov rax, [rsi]
    add rsi, 8
    mov r10, rax
    and r10, -2
    mov r11, r10
    shr r11, 3
    imul r11, r8
    add r11, r9
    add r10, rdi
    mov r12, r10
    mov r13, 512
    xor r14, r14
3:  cmp [r10], r11
    jne 6f
4:  add r10, 8
    add r11, r8
    dec r13
    jnz 3b
    // Of a written page, the second word must be what was written.
    test al, 1
    jz 5f
    cmp [r12 + 8], rax
    je 5f
    mov r14, 1
5:  add rbx, r14
    dec rcx
    jnz 2b
    jmp 8f
6:  test al, 1
    jz 7f
    cmp r13, 511
    je 4b
7:  mov r14, 1
    jmp 4b
8:  out dx, al
    hlt

pagetoll_leave:
2:  out dx, al
    jmp 2b
pagetoll_end:
    .popsection
    "#
);

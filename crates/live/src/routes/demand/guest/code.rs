//! The guest's programs, assembled by iced-x86. Each ends with a write to [`DONE_PORT`].
//!
//! Registers on entry: RDI the first byte of the vCPU's pages, RSI its order, RCX the number of pages, DX the port,
//! R8 by how much a word differs from the one before it, R9 the first word. An entry of the order is the offset of a
//! page in bytes, with bit 0 set where the page is to be written. RBX is the result.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, al, dx, qword_ptr, r8, r9, r10, r11, r12, r13, r14, rax, rbx, rcx, rdi, rsi,
};

use crate::LiveError;

/// The port that ends a program: POST codes, which no machine answers on.
pub(in crate::routes::demand) const DONE_PORT: u16 = 0x80;

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::routes::demand) enum Program {
    /// Reads the order, so that it is mapped. No result.
    Warm,
    /// Touches the pages. The result is the sum of what was read. A written page gets its entry of the order as its
    /// second word.
    Touch,
    /// Compares every word of every page. The result is the number of pages with a wrong word.
    Verify,
    /// Leaves again and again: writes to [`DONE_PORT`] and never ends.
    Leave,
}

impl Program {
    pub(in crate::routes::demand) const ALL: [Self; 4] =
        [Self::Warm, Self::Touch, Self::Verify, Self::Leave];

    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Warm => 0,
            Self::Touch => 1,
            Self::Verify => 2,
            Self::Leave => 3,
        }
    }

    /// The program's code, which is independent of its address.
    pub(super) fn assemble(self) -> Result<Vec<u8>, LiveError> {
        let code = match self {
            Self::Warm => warm(),
            Self::Touch => touch(),
            Self::Verify => verify(),
            Self::Leave => leave(),
        };
        code.map_err(|error| LiveError::System {
            operation: format!("assembling {self:?}"),
            source: std::io::Error::other(error),
        })
    }
}

fn assembler() -> Result<CodeAssembler, IcedError> {
    CodeAssembler::new(64)
}

fn finish(mut asm: CodeAssembler) -> Result<Vec<u8>, IcedError> {
    asm.out(dx, al)?;
    asm.hlt()?;
    asm.assemble(0)
}

fn leave() -> Result<Vec<u8>, IcedError> {
    let mut asm = assembler()?;
    let mut again = asm.create_label();
    asm.set_label(&mut again)?;
    asm.out(dx, al)?;
    asm.jmp(again)?;
    asm.assemble(0)
}

fn warm() -> Result<Vec<u8>, IcedError> {
    let mut asm = assembler()?;
    let mut next = asm.create_label();
    asm.set_label(&mut next)?;
    asm.mov(rax, qword_ptr(rsi))?;
    asm.add(rsi, 8)?;
    asm.dec(rcx)?;
    asm.jnz(next)?;
    finish(asm)
}

fn touch() -> Result<Vec<u8>, IcedError> {
    let mut asm = assembler()?;
    let [mut next, mut write, mut done] = [(); 3].map(|()| asm.create_label());
    asm.set_label(&mut next)?;
    asm.mov(rax, qword_ptr(rsi))?;
    asm.add(rsi, 8)?;
    asm.test(al, 1)?;
    asm.jnz(write)?;
    asm.add(rbx, qword_ptr(rdi + rax))?;
    asm.dec(rcx)?;
    asm.jnz(next)?;
    asm.jmp(done)?;
    asm.set_label(&mut write)?;
    // The entry is odd: 7 more is the second word.
    asm.mov(qword_ptr(rdi + rax + 7), rax)?;
    asm.dec(rcx)?;
    asm.jnz(next)?;
    asm.set_label(&mut done)?;
    finish(asm)
}

fn verify() -> Result<Vec<u8>, IcedError> {
    let mut asm = assembler()?;
    let [mut page, mut word, mut same, mut odd, mut wrong, mut end] =
        [(); 6].map(|()| asm.create_label());
    asm.set_label(&mut page)?;
    asm.mov(rax, qword_ptr(rsi))?;
    asm.add(rsi, 8)?;
    // R10: the address of a word, R11: what it should be, R13: words to go, R14: whether one was wrong.
    asm.mov(r10, rax)?;
    asm.and(r10, -2)?;
    asm.mov(r11, r10)?;
    asm.shr(r11, 3)?;
    asm.imul_2(r11, r8)?;
    asm.add(r11, r9)?;
    asm.add(r10, rdi)?;
    asm.mov(r12, r10)?;
    asm.mov(r13, 512_u64)?;
    asm.xor(r14, r14)?;
    asm.set_label(&mut word)?;
    asm.cmp(qword_ptr(r10), r11)?;
    asm.jne(odd)?;
    asm.set_label(&mut same)?;
    asm.add(r10, 8)?;
    asm.add(r11, r8)?;
    asm.dec(r13)?;
    asm.jnz(word)?;
    // Of a written page, the second word must be what was written.
    asm.test(al, 1)?;
    asm.jz(end)?;
    asm.cmp(qword_ptr(r12 + 8), rax)?;
    asm.je(end)?;
    asm.mov(r14, 1_u64)?;
    asm.set_label(&mut end)?;
    asm.add(rbx, r14)?;
    asm.dec(rcx)?;
    asm.jnz(page)?;
    let mut done = asm.create_label();
    asm.jmp(done)?;
    asm.set_label(&mut odd)?;
    asm.test(al, 1)?;
    asm.jz(wrong)?;
    asm.cmp(r13, 511)?;
    asm.je(same)?;
    asm.set_label(&mut wrong)?;
    asm.mov(r14, 1_u64)?;
    asm.jmp(same)?;
    asm.set_label(&mut done)?;
    finish(asm)
}

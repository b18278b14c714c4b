//! Programs of one access, in ring 3.

use kvm_bindings::kvm_regs;
use kvm_ioctls::VcpuFd;

use super::code::DONE_PORT;
use super::vcpu::RFLAGS;

/// `mov rax, [rdi]`, `out dx, al` (Intel SDM volume 2).
pub const READ: [u8; 4] = [0x48, 0x8b, 0x07, 0xee];
/// `mov [rdi], rax`, `out dx, al`.
pub const WRITE: [u8; 4] = [0x48, 0x89, 0x07, 0xee];

/// The registers that begin an access by `code`; a read has no use for the word.
///
/// # Errors
/// KVM refuses them.
pub fn begin_access(
    vcpu: &VcpuFd,
    code: u64,
    gpa: u64,
    word: u64,
) -> Result<(), kvm_ioctls::Error> {
    vcpu.set_regs(&kvm_regs {
        rip: code,
        rflags: RFLAGS,
        rdi: gpa,
        rax: word,
        rdx: DONE_PORT.into(),
        ..kvm_regs::default()
    })
}

/// The word that was read or written.
///
/// # Errors
/// KVM does not give the register.
pub fn accessed_word(vcpu: &VcpuFd) -> Result<u64, kvm_ioctls::Error> {
    Ok(vcpu.get_regs()?.rax)
}

//! Programs of one access, at EL0.

use kvm_ioctls::VcpuFd;

use super::DONE;
use super::registers::{PC, get, set, x};

/// `ldr x6, [x0]`, `str wzr, [x3]`.
pub const READ: [u8; 8] = [0x06, 0x00, 0x40, 0xf9, 0x7f, 0x00, 0x00, 0xb9];
/// `str x6, [x0]`, `str wzr, [x3]`.
pub const WRITE: [u8; 8] = [0x06, 0x00, 0x00, 0xf9, 0x7f, 0x00, 0x00, 0xb9];

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
    let values = [(PC, code), (x(0), gpa), (x(3), DONE), (x(6), word)];
    values
        .into_iter()
        .try_for_each(|(register, value)| set(vcpu, register, value))
}

/// The word that was read or written.
///
/// # Errors
/// KVM does not give the register.
pub fn accessed_word(vcpu: &VcpuFd) -> Result<u64, kvm_ioctls::Error> {
    get(vcpu, x(6))
}

//! The registers that KVM leaves in `struct kvm_run`.

#![allow(
    unsafe_code,
    reason = "kvm_run is shared with the kernel, and has unions"
)]

use kvm_bindings::{kvm_run, kvm_sync_regs};
use kvm_ioctls::{SyncReg, VcpuFd};

/// Asks for the registers at each exit.
pub(crate) fn attach(vcpu: &mut VcpuFd) {
    vcpu.set_sync_valid_reg(SyncReg::Register);
    vcpu.set_sync_valid_reg(SyncReg::SystemRegister);
}

/// The guest's instruction pointer, for a message.
pub(crate) fn place(vcpu: &VcpuFd) -> String {
    format!("rip {:#x}", vcpu.sync_regs().regs.rip)
}

/// The synced registers. Mean something only where `kvm_valid_regs` asked for them.
pub(super) const fn synced(run: &kvm_run) -> kvm_sync_regs {
    // SAFETY: every member of the union is plain integers or padding within its size, so that any bytes are a value.
    unsafe { run.s.regs }
}

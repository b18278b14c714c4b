//! x86-64: long mode, and ports.

mod access;
mod code;
mod features;
mod tables;
mod vcpu;

use kvm_ioctls::VcpuExit;

pub use access::{READ, WRITE, accessed_word, begin_access};
pub(crate) use code::code;
pub(crate) use features::Features;
pub use tables::write_tables;
pub(crate) use vcpu::set_registers;
pub use vcpu::{place, result, set_privilege, stall};

/// Remedies for a /dev/kvm that is absent.
pub(crate) const WITHOUT_KVM: &str = "load kvm_intel or kvm_amd; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm";
/// Kind of the guest's cheapest exit.
pub const EXIT: &str = "port";

/// Returns whether the guest ended its program.
#[must_use]
#[inline]
pub const fn is_done(exit: &VcpuExit<'_>) -> bool {
    matches!(exit, VcpuExit::IoOut(code::DONE_PORT, _))
}

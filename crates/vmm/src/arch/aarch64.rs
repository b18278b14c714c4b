//! arm64: EL0 or EL1 behind one table of stage 1, and MMIO where no memory is.
//!
//! KVM hands a store to an address without a memslot to user space (`arch/arm64/kvm/mmio.c`, `io_mem_abort`); that is how
//! the guest's programs end.

mod access;
mod code;
mod features;
mod registers;
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
pub(crate) const WITHOUT_KVM: &str = "boot a kernel with CONFIG_KVM at EL2; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm";
/// Kind of the guest's cheapest exit.
pub const EXIT: &str = "MMIO";

/// Address of the store that ends a program: below the paged memory, and far above the guest's own.
const DONE: u64 = 3 << 30;

/// Returns whether the guest ended its program.
#[must_use]
#[inline]
pub const fn is_done(exit: &VcpuExit<'_>) -> bool {
    matches!(exit, VcpuExit::MmioWrite(DONE, _))
}

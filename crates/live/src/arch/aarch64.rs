//! arm64: EL0 or EL1 behind one table of stage 1, MMIO where no memory is, the generic timer's counter.
//!
//! KVM hands a store to an address without a memslot to user space (`arch/arm64/kvm/mmio.c`, `io_mem_abort`); that is how
//! the guest's programs end.

#![allow(unsafe_code, reason = "the counter is read by an instruction")]

mod access;
mod code;
mod cpu;
mod features;
mod registers;
mod tables;
mod vcpu;

#[cfg(test)]
use std::ops::Range;

use kvm_ioctls::VcpuExit;

pub(crate) use access::{READ, WRITE, accessed_word, begin_access};
pub(crate) use code::code;
pub(crate) use cpu::cpu_model;
pub(crate) use features::Features;
pub(crate) use tables::write_tables;
pub(crate) use vcpu::{place, result, set_privilege, set_registers};

/// What to do about a /dev/kvm that is absent.
pub(crate) const WITHOUT_KVM: &str = "boot a kernel with CONFIG_KVM at EL2; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm";
/// What the guest's cheapest exit is.
pub(crate) const EXIT: &str = "MMIO";
/// What an atomic addition is called.
pub(crate) const ATOMIC_ADDITION: &str = "atomic addition";
/// Whether Xen has PV guests.
pub(crate) const HAS_XEN_PV: bool = false;
/// Why conformance cases are not asked.
pub(crate) const NO_ANSWERS: Option<&str> =
    Some("answers were recorded on x86-64 alone, and this host is arm64");
/// What a tick of the counter may last: 1 MHz to 1 GHz (Arm ARM, "The system counter"), and some room.
#[cfg(test)]
pub(crate) const TICK_NANOSECONDS: Range<f64> = 0.9..1100.0;

/// Where a store ends a program: below the paged memory, and far above what the guest has of its own.
const DONE: u64 = 3 << 30;

/// The generic timer's virtual counter.
pub(crate) fn ticks() -> u64 {
    let now;
    // SAFETY: Linux lets user space read it (CNTKCTL_EL1.EL0VCTEN); nothing else is changed.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nostack)) };
    now
}

/// Whether the guest ended its program.
pub(crate) const fn is_done(exit: &VcpuExit<'_>) -> bool {
    matches!(exit, VcpuExit::MmioWrite(DONE, _))
}

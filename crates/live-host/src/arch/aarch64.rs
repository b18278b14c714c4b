//! arm64: the generic timer's counter.

#![allow(unsafe_code, reason = "the counter is read by an instruction")]

mod cpu;

#[cfg(test)]
use std::ops::Range;

pub use cpu::cpu_model;

/// Name of an atomic addition.
pub const ATOMIC_ADDITION: &str = "atomic addition";
/// Set where Xen has PV guests.
pub const HAS_XEN_PV: bool = false;
/// Reason to skip every conformance case.
pub const NO_ANSWERS: Option<&str> =
    Some("answers were recorded on x86-64 alone, and this host is arm64");
/// Range of a tick of the counter: 1 MHz to 1 GHz (Arm ARM, "The system counter"), and some room.
#[cfg(test)]
pub const TICK_NANOSECONDS: Range<f64> = 0.9..1100.0;

/// The generic timer's virtual counter.
pub fn ticks() -> u64 {
    let now;
    // SAFETY: Linux lets user space read it (CNTKCTL_EL1.EL0VCTEN); nothing else is changed.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nostack)) };
    now
}

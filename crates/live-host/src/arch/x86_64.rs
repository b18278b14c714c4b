//! x86-64: the TSC.

#![allow(unsafe_code, reason = "the counter is read by an instruction")]

#[cfg(test)]
use std::ops::Range;

/// Name of an atomic addition.
pub const ATOMIC_ADDITION: &str = "lock xadd";
/// Set where Xen has PV guests.
pub const HAS_XEN_PV: bool = true;
/// Reason to skip every conformance case.
pub const NO_ANSWERS: Option<&str> = None;
/// Range of a tick of the counter.
#[cfg(test)]
pub const TICK_NANOSECONDS: Range<f64> = 0.1..10.0;

/// The time stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: every CPU that this is built for has it, and user space may execute it unless CR4.TSD is set.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The CPU's name in /proc/cpuinfo.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let mut models = cpuinfo.lines().filter_map(|line| {
        let (_, model) = line.strip_prefix("model name")?.split_once(": ")?;
        Some(model.to_owned())
    });
    models.next()
}

//! x86-64: long mode, ports, the TSC.

#![allow(unsafe_code, reason = "the counter is read by an instruction")]

mod access;
mod code;
mod features;
mod tables;
mod vcpu;

#[cfg(test)]
use std::ops::Range;

use kvm_ioctls::VcpuExit;

pub(crate) use access::{READ, WRITE, accessed_word, begin_access};
pub(crate) use code::code;
pub(crate) use features::Features;
pub(crate) use tables::write_tables;
#[cfg(test)]
pub(crate) use vcpu::long_mode;
pub(crate) use vcpu::{place, result, set_privilege, set_registers};

/// What to do about a /dev/kvm that is absent.
pub(crate) const WITHOUT_KVM: &str = "load kvm_intel or kvm_amd; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm";
/// What the guest's cheapest exit is.
pub(crate) const EXIT: &str = "port";
/// What an atomic addition is called.
pub(crate) const ATOMIC_ADDITION: &str = "lock xadd";
/// Whether Xen has PV guests.
pub(crate) const HAS_XEN_PV: bool = true;
/// Why conformance cases are not asked.
pub(crate) const NO_ANSWERS: Option<&str> = None;
/// What a tick of the counter may last.
#[cfg(test)]
pub(crate) const TICK_NANOSECONDS: Range<f64> = 0.1..10.0;

/// The time stamp counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: every CPU that this is built for has it, and user space may execute it unless CR4.TSD is set.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the guest ended its program.
pub(crate) const fn is_done(exit: &VcpuExit<'_>) -> bool {
    matches!(exit, VcpuExit::IoOut(code::DONE_PORT, _))
}

/// The CPU's name in /proc/cpuinfo.
pub(crate) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let mut models = cpuinfo.lines().filter_map(|line| {
        let (_, model) = line.strip_prefix("model name")?.split_once(": ")?;
        Some(model.to_owned())
    });
    models.next()
}

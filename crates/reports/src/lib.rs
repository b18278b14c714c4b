//! Reads what tools report of KVM and of the kernel around it, already counted.
//!
//! [`perf_kvm`] reads `perf kvm stat report`: what each reason to leave the guest took. [`bpftrace`] reads `bpftrace -f json`:
//! maps, histograms and lost events of a script, whatever it counts; [`bpftrace::text`] reads the same as text, and [`bcc`] the
//! histograms of bcc's tools. [`lock_profile`] reads what Xen counts of its locks, [`xenalyze`] what its tool says of a trace.

#![forbid(unsafe_code)]

pub mod bcc;
pub mod bpftrace;
pub mod kvmexit;
pub mod lock_profile;
pub mod migration;
pub mod perf_kvm;
pub mod perf_stat;
pub mod xenalyze;

#[cfg(test)]
mod tests;

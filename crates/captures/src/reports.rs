//! Reads what tools report of KVM and of the kernel around it, already counted.
//!
//! [`perf_kvm`] reads `perf kvm stat report`: what each reason to leave the guest took. [`bpftrace`] reads `bpftrace -f json`:
//! maps, histograms and lost events of a script, whatever it counts; [`bpftrace::text`] reads the same as text, and [`bcc`] the
//! histograms of bcc's tools. [`lock_profile`] reads what Xen counts of its locks, [`xenalyze`] what its tool says of a trace.

pub(crate) mod bcc;
pub(crate) mod bpftrace;
pub(crate) mod kvmexit;
pub(crate) mod lock_profile;
pub(crate) mod migration;
pub(crate) mod perf_kvm;
pub(crate) mod perf_stat;
pub(crate) mod xenalyze;

#[cfg(test)]
mod tests;

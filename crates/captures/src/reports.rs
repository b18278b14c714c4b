//! Reads what tools report of KVM and of the kernel around it, already counted.
//!
//! [`perf_kvm`] reads `perf kvm stat report`: what each reason to leave the guest took. [`bpftrace`] reads `bpftrace -f json`:
//! maps, histograms and lost events of a script, whatever it counts.

pub(crate) mod bpftrace;
pub(crate) mod perf_kvm;

#[cfg(test)]
mod tests;

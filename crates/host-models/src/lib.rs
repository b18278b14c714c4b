//! Functional models of a Linux host that runs virtual machines: they hold real areas, memslots and pins, and refuse
//! what the real kernel refuses. No clock and no cost.
//!
//! [`mm`] is the memory of a process and [`userfaultfd`] what watches it, which [`kvm`] resolves stage-2 faults over;
//! [`vfio`] pins memory for DMA. Each answers the cases of `pagetoll-conformance` as the kernel does; `pagetoll-sim`
//! attaches costs to what they do.
//!
//! Not here: Xen, and the kernel of its PV guests, which are in `pagetoll-models`.

#![forbid(unsafe_code)]

mod errno;
pub mod kvm;
pub mod mm;
pub mod userfaultfd;
pub mod vfio;

pub use errno::Errno;

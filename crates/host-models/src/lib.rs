//! Functional models of a Linux host that runs virtual machines: they hold areas, memslots and pins, and return the
//! errors of the real kernel. They keep no time and know no price.
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
mod page_map;
pub mod userfaultfd;
pub mod vfio;

pub use errno::Errno;

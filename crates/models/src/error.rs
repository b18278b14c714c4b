//! Errors in orders to a simulated system. An error of a guest is no error here but an outcome.

use pagetoll_units::{Pages, VirtualAddress};
use thiserror::Error;

use crate::x86::PageFault;
use crate::xen::Errno;

/// Reason why a simulated guest could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// More than the guest's address space or the machine holds.
    #[error("{asked}: expected 1 to {most}, which is what a simulated guest can map")]
    PagesOutOfRange {
        /// Number that was asked for.
        asked: Pages,
        /// Largest number.
        most: Pages,
    },
    /// A batch that takes no entry, or more than a page table has.
    #[error("batch {batch}: expected 1 to 512, the entries of a page table")]
    BatchOutOfRange {
        /// The batch.
        batch: u32,
    },
    /// More TLS descriptors than a task has.
    #[error("{changed} changed TLS descriptors: expected 0 to 3")]
    TooManyDescriptors {
        /// Number that should change.
        changed: usize,
    },
    /// A hypercall that must not fail did, where Linux would stop with `BUG()`.
    #[error("Xen refused {operation} with {errno:?}")]
    Refused {
        /// Operation that was asked of Xen.
        operation: &'static str,
        /// Error that Xen returned.
        errno: Errno,
    },
    /// The guest's kernel got a page fault that it cannot handle, where Linux would stop with an oops.
    #[error("the guest's kernel faulted at {address}: {fault:?}")]
    KernelFault {
        /// Address that it accessed.
        address: VirtualAddress,
        /// The fault.
        fault: PageFault,
    },
}

//! Errors of setting up a pager and of populating pages.

use std::io;

use thiserror::Error;
use vm_memory::GuestAddress;

use super::processor::UNEXPLAINED;
use super::ranges::GuestRange;

/// Failure of setting up a pager or of populating a page.
#[derive(Debug, Error)]
pub enum PagerError {
    /// A range cannot be paged.
    #[error("guest range {:#x} of {} B {why}", range.start.0, range.bytes)]
    BadRange {
        /// The range that was to be paged.
        range: GuestRange,
        /// The problem with it.
        why: &'static str,
    },
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// The system call or ioctl.
        operation: &'static str,
        /// Its errno.
        source: io::Error,
    },
    /// The source failed more often than was allowed.
    #[error("the source of the page at {:#x} failed {attempts} times: {source}", address.0)]
    Source {
        /// A guest physical address in the page.
        address: GuestAddress,
        /// Failed attempts.
        attempts: u32,
        /// Error of the last attempt.
        source: io::Error,
    },
    /// `KVM_RUN` fails with `EFAULT`, but no missing page was found.
    #[error("KVM_RUN fails with EFAULT at {place}, and {UNEXPLAINED}")]
    Unexplained {
        /// The program counter: the register's name and its value.
        place: String,
    },
    /// A fault was reported for memory that is not paged.
    #[error("a fault at host address {0:#x}, which is not paged")]
    Elsewhere(u64),
}

impl PagerError {
    pub(super) fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::System {
            operation,
            source: error.into(),
        }
    }
}

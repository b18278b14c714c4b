//! userfaultfd: faults of a process that a thread of it resolves.
//!
//! Source: Linux 6.18, `fs/userfaultfd.c` and `mm/userfaultfd.c`; one file of this module for each group of calls.
//! Functional: ranges are registered and refused, faults queue, are read and woken, pages are filled and protected,
//! each as the kernel does it and with its errors. Nothing has a cost here; locks and wake-up latencies belong to who
//! bills time.
//!
//! | here | there |
//! |---|---|
//! | [`Queues`] | `fault_pending_wqh`, `fault_wqh`; `userfaultfd_ctx_read`, `__wake_userfault` |
//! | `api` | `new_userfaultfd`, `userfaultfd_api`, `userfaultfd_poll`, `userfaultfd_read_iter`, `userfaultfd_release` |
//! | `register` | `userfaultfd_register`, `userfaultfd_unregister`, `validate_range` |
//! | `fill` | `userfaultfd_copy`, `_zeropage`, `_continue`; `mfill_atomic` |
//! | `writeprotect` | `userfaultfd_writeprotect`, `mwriteprotect_range` |
//!
//! Not here: events (fork, remap, remove, unmap), `UFFDIO_MOVE`, `UFFDIO_POISON`, asynchronous write protection.

mod api;
mod fill;
mod queues;
mod register;
mod writeprotect;

#[cfg(test)]
mod tests;

pub use api::{Features, Message, OpenFlags, Poll};
pub use fill::{Fill, FillResult, Source};
pub use queues::{Fault, Queues, ThreadId};
pub use register::Ioctls;
pub use writeprotect::Protect;

use pagetoll_units::Hva;

/// One of a process's userfaultfds, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UffdId(pub(crate) usize);

/// A userfaultfd: `struct userfaultfd_ctx`.
#[derive(Clone, Debug)]
pub struct Userfaultfd {
    pub(crate) opened: OpenFlags,
    /// Features that were agreed on; `None` before `UFFDIO_API`.
    pub(crate) features: Option<Features>,
    pub(crate) released: bool,
    /// Faults that wait.
    pub(crate) queues: Queues,
}

/// A range of addresses, as the calls take it: `struct uffdio_range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first byte.
    pub start: Hva,
    /// Bytes.
    pub len: u64,
}

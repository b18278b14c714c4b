//! This host, billed: what pinning pages and paging them in on demand cost here, and how to do the latter.
//!
//! [`routes::pin`] runs the pinning loops over page descriptors; it needs no device and no privilege. [`routes::demand`] bills the
//! `demand` route on this host's KVM and userfaultfd; [`pager`] is the demand pager that it bills, for a VMM to embed.
//! [`conformance`] answers the cases that the model of both is held against.
//! `unsafe` is confined to the modules that talk to the kernel; each block states what makes it sound.

#![deny(unsafe_code)]

pub mod conformance;
mod error;
pub mod host;
pub mod pager;
pub mod routes;
mod thread_time;

pub use error::LiveError;

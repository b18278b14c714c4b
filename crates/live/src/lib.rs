//! This host's own KVM and userfaultfd: what paging memory in on demand costs here, and how to do it.
//!
//! [`demand`] bills the `demand` route on this host; [`pager`] is the demand pager that it bills, for a VMM to embed.
//! `unsafe` is confined to the modules that talk to the kernel; each block states what makes it sound.

#![deny(unsafe_code)]

pub mod demand;
mod error;
pub mod host;
pub mod pager;

pub use error::LiveError;

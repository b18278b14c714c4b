//! Kernels, hypervisors and guest packages: found, fetched, verified, unpacked and built.
//!
//! [`apt`] fetches from Debian's mirrors without touching the system's set-up; [`kernel`] and [`xen`] accept images only
//! after a look inside. [`mapped_ram`] finds memory in QEMU's files. Starts no guest.

#![forbid(unsafe_code)]

pub mod apt;
pub mod deb;
pub mod kernel;
pub mod mapped_ram;
mod unpack;
pub mod xen;

//! This host, billed: what pinning pages and paging them in on demand cost here.
//!
//! [`Live`] is the backend. Of route `pin` it runs the pinning loops over page descriptors, which need no device and no
//! privilege; and VFIO itself, with a device that is given. Route `demand` is billed by `crates/live-demand`, with the demand
//! pager of `crates/pager`; routes of whole guests by `crates/live-guests`. [`conformance`] answers the cases that the model of both is held against.
//! Machines and their guests are those of `crates/vmm`. `unsafe` is confined to the modules that talk to the kernel; each
//! block states what makes it sound.

#![deny(unsafe_code)]

mod backend;
pub mod conformance;
pub mod doctor;
mod kernel_module;
mod pci;
mod program;
pub mod routes;
mod undo;

pub use backend::Live;
pub use pagetoll_live_demand::primitives;
pub use pagetoll_live_guests::{migrate_destination, restore_clone};
pub use pagetoll_live_host::{LiveError, host};
pub use undo::guard;

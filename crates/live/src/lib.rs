//! This host, billed: what pinning pages and paging them in on demand cost here.
//!
//! [`Live`] is the backend. Of route `pin` it runs the pinning loops over page descriptors, which need no device and no
//! privilege; and VFIO itself, with a device that is given. Route `demand` it bills on this host's KVM and userfaultfd,
//! with the demand pager of `crates/pager`. [`conformance`] answers the cases that the model of both is held against.
//! Machines and their guests are those of `crates/vmm`. `unsafe` is confined to the modules that talk to the kernel; each
//! block states what makes it sound.

#![deny(unsafe_code)]

mod arch;
mod backend;
mod clock;
pub mod conformance;
mod cpu_time;
mod descriptors;
pub mod doctor;
mod error;
mod gmem;
mod guest_memory;
pub mod host;
mod kernel_module;
mod own_process;
mod page_cache;
mod patience;
mod pci;
mod program;
pub mod routes;
mod smaps;
mod undo;
mod vcpus;

pub use backend::Live;
pub use error::LiveError;
pub use routes::migrate::migrate_destination;
pub use routes::restore::restore_clone;
pub use undo::guard;

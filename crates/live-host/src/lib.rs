//! Host side of live bills: capabilities and load of this host, and what its routes share: guest memory, vCPU threads, the
//! order of runs, child processes of pagetoll itself.

#![deny(unsafe_code)]

pub mod arch;
pub mod clock;
pub mod cpu_time;
pub mod descriptors;
mod error;
pub mod gmem;
pub mod guest_memory;
pub mod host;
pub mod limits;
pub mod own_process;
pub mod page_cache;
pub mod patience;
pub mod smaps;
pub mod turns;
pub mod vcpus;

pub use error::LiveError;

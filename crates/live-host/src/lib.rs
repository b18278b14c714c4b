//! This host in bills of it: what it can do and how busy it is, and what the routes on it share: memory of guests, threads
//! of vCPUs, turns of runs, processes that are this program again.

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

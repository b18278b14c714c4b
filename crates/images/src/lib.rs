//! What boots and how it is built: kernels, hypervisors and packages, found, fetched, verified, unpacked, and kept in a
//! cache. Starts no guest.

#![forbid(unsafe_code)]

pub mod apt;
pub mod cache;
pub mod deb;
pub mod digest;
pub mod error;
pub mod host;
pub mod kernel;
pub mod make;
pub mod per_arch;
pub mod process;
pub mod tools;
mod unpack;
pub mod xen;

use pagetoll_backend::{Progress, Stop};

use crate::cache::Cache;

pub use error::Error;

/// Where images are kept, and who can end the work or follow it.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Packages, images and builds.
    pub cache: &'a Cache,
    /// Asks for an early end.
    pub stop: &'a Stop,
    /// Follows the progress.
    pub progress: &'a dyn Progress,
}

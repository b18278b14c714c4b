//! What boots and how it is built: kernels, hypervisors and packages, found, fetched, verified, unpacked, and kept in a
//! cache. Starts no guest.

#![forbid(unsafe_code)]

pub mod apt;
mod bzimage;
pub mod cache;
pub mod deb;
pub mod digest;
pub mod dom0;
pub mod error;
pub mod headers;
pub mod host;
pub mod kernel;
pub mod make;
pub mod modules;
pub mod process;
pub mod tools;
pub mod vmlinux;
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

/// Reports a skipped test on the real stderr, past the capture of test output, where CI counts it.
#[cfg(test)]
fn skipped(reason: &dyn std::fmt::Display) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _unseen = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

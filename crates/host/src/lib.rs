//! Programs that run on this host, and the files that are kept between runs.
//!
//! A [`process::Run`] is a child that ends with its guard; [`tools`] finds programs and names the package of each that is
//! missing; [`make`] builds; the [`cache`] keeps files under names that say what they were made from. Knows nothing of
//! guests, kernels or hypervisors.

#![forbid(unsafe_code)]

pub mod cache;
pub mod capacity;
pub mod digest;
pub mod error;
pub mod make;
pub mod process;
pub mod tools;

use pagetoll_backend::{Progress, Stop};

use crate::cache::Cache;

pub use error::Error;

/// The cache, cancellation and progress of a long call.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Packages, images and builds.
    pub cache: &'a Cache,
    /// Asks for an early end.
    pub stop: &'a Stop,
    /// Follows the progress.
    pub progress: &'a dyn Progress,
}

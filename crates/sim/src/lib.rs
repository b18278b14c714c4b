//! The simulator as a backend: from an order and a cost table to a bill.
//!
//! [`routes`] runs a mechanism once on the functional models (`pagetoll-models`, `pagetoll-host-models`) and attaches
//! prices to what was counted. [`contention`] runs CPUs that wait for each other in virtual time (`pagetoll-engine`).
//! [`calibrate`] makes cost tables, [`validate`] compares results with published ones, [`search`] explores all
//! interleavings.

#![forbid(unsafe_code)]

mod backend;
pub mod calibrate;
pub mod contention;
pub mod costs;
mod error;
pub mod routes;
pub mod search;
mod sensitivity;
mod timeline;
pub mod validate;

pub use backend::Sim;
pub use error::{BillingError, RequestError};

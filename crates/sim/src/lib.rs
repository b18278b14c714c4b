//! The simulator as a backend: from an order and a cost table to a bill.
//!
//! [`routes`] runs a mechanism once on the functional models (`pagetoll-models`) and attaches prices to what was
//! counted. [`contention`] runs CPUs that wait for each other in virtual time (`pagetoll-engine`). [`calibrate`] makes
//! cost tables, [`validate`] compares results with published ones, [`search`] explores all interleavings.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod contention;
pub mod routes;
pub mod search;
pub mod timeline;
pub mod validate;

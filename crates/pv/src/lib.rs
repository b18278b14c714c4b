//! The routes of Xen PV guests: the sessions of a bill, and its rows from their findings.
//!
//! [`routes`] has a `Billing` for each; they share [`session`]s, [`plan`], [`findings`] and [`rows`]. [`pin`] has the orders
//! and rows of VFIO, which runs in such guests and on hosts alike. Pure: the lab boots what a session says, `live` runs it
//! in the guest that pagetoll runs in.

// A new route or mechanism does not compile here until it has an arm.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

pub mod findings;
pub mod pin;
pub mod plan;
pub mod pv32;
mod repeated;
pub mod routes;
pub mod rows;
pub mod session;

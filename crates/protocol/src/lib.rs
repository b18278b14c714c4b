//! The programs of `guests` and the line protocol that they speak with the host.
//!
//! [`build`] compiles them; a [`step`] is a line of an order, a [`report`] a line of the answer. The lab boots such guests,
//! `live` runs in one. Knows no route: crates/pv and the backends decide what is ordered and what follows from reports.

#![forbid(unsafe_code)]

pub mod build;
pub mod report;
pub mod step;

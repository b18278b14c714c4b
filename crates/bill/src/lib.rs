//! Routes, mechanisms, orders and bills: the plain data that every layer of pagetoll speaks.
//!
//! No I/O, no clock, no hypervisor: a [`Bill`] that was saved renders the same wherever it is read.
//! Backends fill bills, the command line renders them; neither sees the other.

#![forbid(unsafe_code)]

mod bill;
mod check;
pub mod cost;
pub mod crossing;
pub mod diff;
mod itemise;
mod order;
mod provenance;
mod route;
mod side_by_side;
mod spread;
mod support;

pub use bill::{
    Backend, Bill, Evidence, Interval, Layout, PublishedRate, Row, Schema, System, Toll, Unit,
};
pub use check::{Check, Verdict};
pub use itemise::{Baselines, Measured, itemise, itemise_calls};
pub use order::{Limits, Order, OrderError};
pub use provenance::{Image, Package, Provenance};
pub use route::{Mechanism, Role, Route, UnknownMechanism};
pub use spread::Spread;
pub use support::Support;

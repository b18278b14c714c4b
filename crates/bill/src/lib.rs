//! Routes, mechanisms, orders and bills: the plain data that every layer of pagetoll speaks.
//!
//! No I/O, no clock, no hypervisor: a [`Bill`] that was saved renders the same wherever it is read.
//! Backends fill [`Draft`]s, the command line renders bills; neither sees the other.

#![forbid(unsafe_code)]

mod bill;
mod check;
pub mod cost;
pub mod crossing;
pub mod diff;
mod itemise;
mod kinds;
pub mod names;
pub mod options;
mod order;
mod provenance;
pub mod route;
pub mod row;
mod side_by_side;
pub mod spec;
mod spread;
#[cfg(test)]
mod tests;

pub use bill::{Bill, BillError, Draft, Occasion, schema};
pub use check::{Check, Verdict};
pub use itemise::{Baselines, Measured, itemise, itemise_calls};
pub use kinds::{Backend, Evidence, Role, Schema, Support, System, Unit};
pub use options::Opt;
pub use order::{Order, OrderError, Terms};
pub use provenance::{HostLoad, Image, Inputs, Package, Provenance};
pub use route::{Mechanism, Route, RouteMechanism, UnknownMechanism};
pub use row::{Crossings, Figures, Method, Operation, Row, RowKey, Toll, Unavailable};
pub use spec::Spec;
pub use spread::Spread;

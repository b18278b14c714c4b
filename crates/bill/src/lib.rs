//! Routes, mechanisms, orders and bills: the plain data that every layer of pagetoll speaks.
//!
//! No I/O, no clock, no hypervisor: a [`Bill`] that was saved renders the same wherever it is read.
//! Backends fill [`Draft`]s, the command line renders bills; neither sees the other.

#![forbid(unsafe_code)]

mod bill;
mod json;
mod kinds;
mod magnitude;
pub mod names;
mod order;
mod provenance;
pub mod route;
pub mod row;
#[cfg(test)]
mod tests;

#[cfg(feature = "schema")]
pub use bill::schema;
pub use bill::{Bill, BillError, Draft, Invocation};
pub use json::from_json;
pub use kinds::{Arch, Backend, Evidence, Role, Schema, Support, System, Unit};
pub use magnitude::Magnitude;
pub use order::{Limits, Opt, Order, OrderError, Spec, options, spec, values};
pub use provenance::{HostLoad, Image, Inputs, Package, Provenance};
pub use route::{Mechanism, Route, RouteMechanism, UnknownMechanism};
pub use row::profile;
pub use row::{
    Available, Baselines, Check, Crossings, Figures, Measured, Method, Operation, Row, RowKey,
    Spread, Toll, Unavailable, Verdict, crossing, itemise, itemise_calls,
};

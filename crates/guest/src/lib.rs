//! What bills a guest from inside: programs and a kernel module, their orders and their reports.
//!
//! [`build`] makes them; a [`step`] is a line of an order, a [`report`] a line of what comes back. [`pv`] and [`routes`]
//! are the routes of Xen PV guests: the sessions of a bill, and its rows from their findings; [`pin`] is that of VFIO. The
//! lab boots such guests, `live` runs in one. All but the builds is pure.

#![forbid(unsafe_code)]

pub mod build;
pub mod pin;
pub mod pv;
pub mod report;
pub mod routes;
pub mod step;

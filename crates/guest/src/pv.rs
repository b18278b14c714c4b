//! What the routes of a Xen PV guest share: sessions, steps, findings, rows.

pub mod findings;
pub mod plan;
pub mod pv32;
pub(crate) mod repeated;
pub mod rows;
pub mod session;

//! What the routes of a PV dom0 share: boots, orders, findings, rows.

pub(crate) mod collect;
pub(crate) mod findings;
pub(crate) mod materials;
pub(crate) mod plan;
pub(crate) mod pv32;
pub(crate) mod repeated;
pub(crate) mod rows;

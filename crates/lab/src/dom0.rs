//! The routes of a PV dom0 in the lab: what they boot, and what is made of it.

pub(crate) mod bill;
pub(crate) mod boot;
pub(crate) mod boots;
pub(crate) mod materials;

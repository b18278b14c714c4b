//! The routes that this host bills.

pub mod demand;
pub(crate) mod dirty;
pub(crate) mod discard;
pub(crate) mod limits;
pub mod migrate;
pub(crate) mod pin;
pub mod pv;
pub mod restore;
pub(crate) mod turns;
pub(crate) mod vfio;

//! The routes that this host bills.

pub mod demand;
pub mod pin;

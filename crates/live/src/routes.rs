//! The routes of this host that need no guest of its own.

pub(crate) mod pin;
pub mod pv;
pub(crate) mod vfio;

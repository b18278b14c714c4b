//! One QEMU: its command line, its console, its end, and what it counts.

pub(crate) mod boot;
pub(crate) mod confine;
pub(crate) mod console;
pub mod cores;
pub(crate) mod counter;
pub(crate) mod folder;
pub(crate) mod machine;
pub(crate) mod side_by_side;
mod user;
mod watchdog;

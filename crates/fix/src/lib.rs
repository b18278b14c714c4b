//! Kernel patches that cut tolls: carried, applied, built, and checked in the lab.
//!
//! [`build`](build::build) makes a kernel from Debian's source and a series of patches of `fixes/`; [`check`](check::check)
//! runs the checks of a fix on it and on variants that are broken on purpose. It boots nothing itself: the lab does.

pub mod build;
pub mod catalogue;
pub mod check;
pub mod commits;
mod config;
pub mod cover;
mod error;
mod fixes;
pub mod git;
pub mod hypervisor;
mod make;
pub mod patch;
mod source;
pub mod spec;
mod target;
mod tree;

pub use config::{Devices, Flavour};
pub use error::FixError;
pub use fixes::Fixes;

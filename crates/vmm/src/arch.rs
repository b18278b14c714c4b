//! The processor's share of a machine: a guest's code, tables and registers, and the exits that end its programs.
//!
//! Each processor's module has the same items.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// Privilege of a guest's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Ring 0 of x86-64, EL1 of arm64.
    Kernel,
    /// Ring 3, EL0.
    User,
}

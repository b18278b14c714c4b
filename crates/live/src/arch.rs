//! The processor's part of a live bill: a guest's code, tables and registers, the exits by which it ends, and the
//! counter. Each processor's module has the same items. What the pager knows of it is in `crates/pager`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

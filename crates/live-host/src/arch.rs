//! The processor's share of a live bill: the counter, and what this host is called and can be asked. Each processor's
//! module has the same items. The guest's share is in `crates/vmm`, the pager's in `crates/pager`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

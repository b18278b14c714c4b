//! A VM and its guest: memory, vCPUs, programs in ring 0 or 3, and the signals that interrupt `KVM_RUN`.
//!
//! Which pages are missing, and what resolves a fault, is the business of `crates/pager` and of the routes.

pub(crate) mod backing;
pub(crate) mod exit;
pub(crate) mod folios;
pub(crate) mod gmem;
pub(crate) mod guest;
pub(crate) mod kick;
pub(crate) mod kvm;
pub(crate) mod machine;
pub(crate) mod memory;

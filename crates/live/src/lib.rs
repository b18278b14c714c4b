//! This host, billed: what pages cost here, in nanoseconds with their spread.
//!
//! [`pin`] runs the pinning loops over page descriptors; it needs no device and no privilege.

#![deny(unsafe_code)]

pub mod pin;

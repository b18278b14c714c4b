//! Readers of the trace formats in which hypervisors and kernels report page tolls.
//!
//! [`xentrace`] reads the binary stream of Xen's `xentrace`: it counts the traps, emulated
//! page-table writes and hypercalls of each vcpu, and those between two markers.
//!
//! The crate only reads. It does not control tracing, does not convert cycles to seconds and does
//! not price anything.

#![forbid(unsafe_code)]

pub mod xentrace;

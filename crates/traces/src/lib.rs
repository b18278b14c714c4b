//! Readers of the trace formats in which hypervisors and kernels report page tolls.
//!
//! [`xentrace`] reads the binary stream of Xen's `xentrace`: it counts the traps, emulated
//! page-table writes and hypercalls of each vcpu, and those between two markers.
//!
//! [`ftrace`] reads the text of Linux's function_graph: what each function itself took.
//!
//! The crate only reads. It does not control tracing, does not convert cycles to seconds and does
//! not price anything.

#![forbid(unsafe_code)]

pub mod ftrace;
pub mod xentrace;

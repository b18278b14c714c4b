//! Readers of the trace formats in which hypervisors and kernels report page tolls, and writers of
//! those in which they are looked at.
//!
//! [`xentrace`] reads the binary stream of Xen's `xentrace`: it counts the traps, emulated
//! page-table writes and hypercalls of each vcpu, and those between two markers.
//!
//! [`ftrace`] reads the text of Linux's function_graph: what each function itself took.
//!
//! [`tracepoint`] types what Linux's tracepoints say of pages; [`perf_data`] reads it from what `perf record` writes,
//! [`trace_text`] from what `perf script`, trace-cmd and tracefs print.
//!
//! [`counters`] reads KVM's counters in the forms in which they are kept, and subtracts them.
//!
//! [`reports`] reads what tools say of KVM: `perf kvm stat report`, bpftrace.
//!
//! [`folded`] and [`perfetto`] write [`spans`], which a simulator records, for flamegraph tools and for
//! the Perfetto viewer.
//!
//! The crate does not control tracing, does not convert cycles to seconds and does not price anything.

#![forbid(unsafe_code)]

pub mod counters;
mod exit_names;
pub mod folded;
pub mod ftrace;
mod json;
mod lines;
pub mod lock_profile;
pub mod perf_data;
pub mod perfetto;
mod place;
pub mod reports;
pub mod spans;
pub mod symbols;
pub mod trace_text;
pub mod tracepoint;
pub mod xentrace;

pub use place::{Place, ReadError, Truncated};

//! What users recorded on their own machines, as costs per page: a capture becomes an [`Observation`], and two of them a
//! [`Comparison`].
//!
//! Readers of what other crates do not read: [`perf_data`] of what `perf record` writes, [`counters`] of KVM's counters,
//! [`reports`] of `perf kvm stat report` and bpftrace. `pagetoll_xentrace` reads xentrace, `pagetoll_ftrace` the text of
//! Linux's tracers.
//!
//! Everything here is pure: bytes in, plain data out; it neither records nor prints.

#![forbid(unsafe_code)]

mod comparison;
pub mod counters;
mod dump;
mod format;
mod json;
mod lines;
mod observation;
pub mod perf_data;
mod position;
mod recording;
pub mod reports;

pub use comparison::{Change, Comparison, NoWork, Side};
pub use dump::{DumpError, dump};
pub use format::{CaptureError, observe, observe_stream};
pub use observation::{Capture, Group, Item, Observation, Party, Place, Unit, Volume, total};
pub use position::{Position, ReadError, Truncated};
pub use recording::{Recorder, Recording};

//! Captures that users recorded on their own machines, as costs per page: a capture becomes an
//! [`Observation`](pagetoll_observation::Observation), and two of them a [`Comparison`].
//!
//! [`FORMATS`] has a row for each format: its name, its recogniser, and the function that observes it. The readers are in crates
//! of their own: `pagetoll_perf_data`, `pagetoll_counters` of KVM's counters, `pagetoll_reports` of what tools print,
//! `pagetoll_xentrace`, and `pagetoll_ftrace` for the text of Linux's tracers; what the events of a trace are to a user is
//! here. Text is read as people paste it: `pagetoll_text` takes off what is around it, and `sections` finds each form in it.
//!
//! [`causes`] gives the cause of each fault of a guest, by `pagetoll_causes`.
//!
//! Everything here is pure: bytes in, plain data out; it neither records nor prints.

#![forbid(unsafe_code)]

mod comparison;
mod dump;
mod events;
mod faults;
mod format;
mod function_graph;
mod lookalike;
mod qmp;
mod reading;
mod recording;
mod sections;
mod source;
mod tracepoints;
mod xentrace;

pub use comparison::{Change, Comparison, Incomparable, Pair, Side};
pub use dump::{DumpError, dump};
pub use faults::{causes, causes_of_stream};
pub use format::{FORMATS, Format};
pub use lookalike::{Lookalike, is_trace_dat};
pub use reading::{observe, observe_stream};
pub use recording::{Recorder, Recording, Script, WHY_SCRIPT};
pub use source::CaptureError;

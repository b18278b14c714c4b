//! What users recorded on their own machines, as costs per page: a capture becomes an [`Observation`], and two of them a
//! [`Comparison`].
//!
//! Formats are `traces`'. Everything here is pure: bytes in, plain data out; it neither records nor prints.

#![forbid(unsafe_code)]

mod comparison;
mod counters;
mod dump;
mod format;
mod function_graph;
mod observation;
mod recording;
mod reports;
mod tracepoints;
mod xentrace;

pub use comparison::{Change, Comparison, NoWork, Side};
pub use dump::{DumpError, dump};
pub use format::{ReadError, observe, observe_stream, recognise};
pub use observation::{Capture, Group, Item, Observation, Party, Place, Unit, Volume, total};
pub use recording::{Recorder, Recording};

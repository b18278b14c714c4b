//! Captures that users recorded on their own machines, as costs per page: a capture becomes an [`Observation`], and two of
//! them a [`Comparison`].
//!
//! [`FORMATS`] has a row for each format: its name, its recogniser, and the function that observes it. The readers are here
//! ([`perf_data`], KVM's counters, reports of tools), in `pagetoll_xentrace`, and in `pagetoll_ftrace` for the text of Linux's
//! tracers. Text is read as people paste it: `paste` takes off what is around it, and `sections` finds each form in it.
//!
//! [`causes`] follows each page of a guest through a capture, and tells why it faulted.
//!
//! Everything here is pure: bytes in, plain data out; it neither records nor prints.

#![forbid(unsafe_code)]

pub mod causes;
mod comparison;
mod counters;
mod dump;
mod format;
mod json;
mod lines;
mod lookalike;
mod observation;
mod paste;
pub mod perf_data;
mod position;
mod recording;
mod reports;
mod sections;
mod tally;

pub use comparison::{Change, Comparison, Incomparable, Pair, Side};
pub use dump::{DumpError, dump};
pub use format::{CaptureError, FORMATS, Format, observe, observe_stream};
pub use lookalike::Lookalike;
pub use observation::{
    Bucket, Capture, Group, Item, Observation, Others, Party, Place, Recorded, Summed, Thread,
    Unit, Values, Volume, total,
};
pub use paste::{LeftOut, NumberedLine};
pub use position::{Position, ReadError, Truncated};
pub use recording::{Recorder, Recording, Script, WHY_SCRIPT};

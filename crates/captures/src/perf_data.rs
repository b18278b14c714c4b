//! `perf.data`: what `perf record` writes, as a file, through a pipe (`-o -`), or compressed (`-z`).
//!
//! [`Reader`] hands over the known tracepoints in the order of their times. It needs memory for one round of perf's
//! buffers, up to [`MAX_QUEUED`] events, and for the formats that the file has.
//!
//! - A file that ends early gives the events that it has, and says so in
//!   [`Tally::truncated`](pagetoll_ftrace::tracepoint::Tally::truncated). In a file, unlike in a pipe, the formats come last: of one that
//!   perf did not finish, events are counted by number and none is understood.
//! - Bytes that are no records are an error with their offset; the events before them come first.
//!
//! Not here: samples that are no tracepoints, call chains, symbols, big-endian files, and the format of perf before 2.6.35.
//!
//! Sources: `tools/perf/Documentation/perf.data-file-format.txt`, `tools/perf/util/{header,session,ordered-events}.c`,
//! `tools/perf/util/trace-event-read.c`, `include/uapi/linux/perf_event.h`, Linux 6.18.

mod attributes;
mod compression;
mod error;
mod header;
mod little_endian;
mod losses;
mod order;
mod reader;
mod records;
mod sample;
mod session;
mod threads;
mod tracing_data;

pub use error::PerfDataError;
pub use header::is_capture;
pub use order::MAX_QUEUED;
pub use reader::Reader;

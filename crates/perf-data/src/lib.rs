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

#![forbid(unsafe_code)]

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

/// The names of events, joined, if there are some and each is perf's own: of hardware, of software, or by number.
#[must_use]
pub fn samples_alone<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut found = Vec::new();
    for name in names {
        let base = name.split(':').next().unwrap_or_default();
        let named = attributes::HARDWARE_EVENTS.contains(&base)
            || attributes::SOFTWARE_EVENTS.contains(&base)
            || ["cpu-cycles", "branch-instructions"].contains(&base);
        // `cpu/mem-loads,ldlat=30/P`, `perf type 4 config 0x1c2`.
        if !named && !base.contains('/') && !base.starts_with("perf type ") {
            return None;
        }
        found.push(name.as_str());
    }
    (!found.is_empty()).then(|| found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_perfs_own_events_are_told_from_tracepoints() {
        let alone = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            samples_alone(names.iter())
        };
        assert_eq!(
            alone(&["cycles:pp", "cpu/mem-loads/P"]).as_deref(),
            Some("cycles:pp, cpu/mem-loads/P")
        );
        assert_eq!(alone(&["cycles", "sched:sched_switch"]), None);
        assert_eq!(alone(&[]), None);
    }
}

//! Which format a capture has: its content says so.

use std::io::{self, BufReader, Read, Seek};

use pagetoll_traces::counters::Form;
use pagetoll_traces::ftrace::{FtraceError, GraphLine};
use pagetoll_traces::perf_data::{self, PerfDataError};
use pagetoll_traces::reports::{bpftrace, perf_kvm};
use pagetoll_traces::symbols::Symbols;
use pagetoll_traces::trace_text::{self, TraceTextError};
use pagetoll_traces::xentrace::{self as records, XentraceError};
use thiserror::Error;

use crate::observation::Observation;
use crate::tracepoints::Threads;
use crate::{counters, function_graph, reports, xentrace};

/// As much of a capture as tells its format.
const HEAD: u64 = 64 << 10;
/// A file that is not read as a stream may have as many bytes. Assumed: a day of kvm_stat is below.
const MOST_OF_WHOLE: u64 = 256 << 20;

/// Why a capture was not read, so that `FILE: {it}` reads well.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Its content is of no format that is known.
    #[error("is no capture that can be read; expected one of: {}", Format::names())]
    Unknown,
    /// More than is read at once.
    #[error("is larger than {} MiB; expected at most that of this format", MOST_OF_WHOLE >> 20)]
    TooLarge,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is damaged.
    #[error(transparent)]
    Xentrace(#[from] XentraceError),
    /// It is damaged.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// A line of it cannot be read.
    #[error(transparent)]
    Text(#[from] TraceTextError),
    /// A line of it cannot be read.
    #[error(transparent)]
    Graph(#[from] FtraceError),
    /// Counters or a report that are not as their tool writes them.
    #[error(transparent)]
    Counted(#[from] pagetoll_traces::ReadError),
}

/// A format of captures; of two that a content might have, the first is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Xentrace,
    PerfData,
    Counters(Form),
    PerfKvm,
    Bpftrace,
    FunctionGraph,
    TraceText,
}

impl Format {
    fn of(head: &[u8]) -> Option<Self> {
        if records::is_capture(head) {
            return Some(Self::Xentrace);
        }
        if perf_data::is_capture(head) {
            return Some(Self::PerfData);
        }
        if let Some(form) = Form::of(head) {
            return Some(Self::Counters(form));
        }
        match head {
            _ if perf_kvm::is(head) => Some(Self::PerfKvm),
            _ if bpftrace::is(head) => Some(Self::Bpftrace),
            _ if is_function_graph(head) => Some(Self::FunctionGraph),
            _ if is_trace_text(head) => Some(Self::TraceText),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Xentrace => "xentrace",
            Self::PerfData => "perf.data",
            Self::Counters(Form::StatsFd) => "KVM_GET_STATS_FD",
            Self::Counters(Form::KvmStat) => "kvm_stat",
            Self::Counters(Form::Qmp) => "query-stats of QMP",
            Self::Counters(Form::Debugfs) => "debugfs of KVM",
            Self::Counters(Form::Domstats) => "virsh domstats",
            Self::PerfKvm => "perf kvm stat report",
            Self::Bpftrace => "bpftrace -f json",
            Self::FunctionGraph => "function_graph",
            Self::TraceText => "tracepoints as text",
        }
    }

    fn names() -> String {
        let counters = Form::ALL.map(Self::Counters);
        let others = [
            Self::Xentrace,
            Self::PerfData,
            Self::TraceText,
            Self::FunctionGraph,
            Self::PerfKvm,
            Self::Bpftrace,
        ];
        let names: Vec<_> = others.into_iter().chain(counters).map(Self::name).collect();
        names.join(", ")
    }
}

fn is_function_graph(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.lines().any(|line| GraphLine::read(line).is_some())
}

fn is_trace_text(head: &[u8]) -> bool {
    let mut reader = trace_text::Reader::new(head);
    let has_event = matches!(reader.next_item(), Ok(Some(_)));
    has_event || reader.tally().unknown_events() > 0
}

/// Name of the format of a capture that begins like this.
#[must_use]
pub fn recognise(head: &[u8]) -> Option<&'static str> {
    Format::of(head).map(Format::name)
}

/// Reads a capture of any format to its end, or to where it is cut off; errors and the result call it `file`.
///
/// # Errors
/// [`ReadError`].
pub fn observe(
    file: &str,
    mut source: impl Read + Seek,
    symbols: &Symbols,
) -> Result<Observation, ReadError> {
    let format = Format::of(&head_of(&mut source)?).ok_or(ReadError::Unknown)?;
    source.rewind()?;
    observe_as(format, file, source, symbols, |source| {
        of_perf_data(file, perf_data::Reader::open(BufReader::new(source))?)
    })
}

/// The same of a pipe. A file of perf must have been written to one too (`perf record -o -`).
///
/// # Errors
/// [`ReadError`].
pub fn observe_stream(
    file: &str,
    mut source: impl Read,
    symbols: &Symbols,
) -> Result<Observation, ReadError> {
    let head = head_of(&mut source)?;
    let format = Format::of(&head).ok_or(ReadError::Unknown)?;
    let whole = head.as_slice().chain(source);
    observe_as(format, file, whole, symbols, |source| {
        of_perf_data(file, perf_data::Reader::stream(source)?)
    })
}

fn head_of(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// How a file of perf is opened depends on whether the source can seek.
fn observe_as<S: Read>(
    format: Format,
    file: &str,
    source: S,
    symbols: &Symbols,
    perf_data: impl FnOnce(S) -> Result<Observation, ReadError>,
) -> Result<Observation, ReadError> {
    let name = format.name();
    Ok(match format {
        Format::Xentrace => xentrace::observe(file, source, symbols)?,
        Format::PerfData => perf_data(source)?,
        Format::Counters(form) => counters::observe(file, name, form.growth(&whole(source)?)?),
        Format::PerfKvm => reports::of_perf_kvm(file, name, &perf_kvm::read(&whole(source)?)?),
        Format::Bpftrace => reports::of_bpftrace(file, name, bpftrace::read(&whole(source)?)?),
        Format::FunctionGraph => function_graph::observe(file, name, &whole(source)?)?,
        Format::TraceText => {
            let mut reader = trace_text::Reader::new(BufReader::new(source));
            let threads = Threads::of(|| reader.next_item())?;
            threads.observed(file, name, reader.tally())
        }
    })
}

fn of_perf_data<S: Read>(
    file: &str,
    mut reader: perf_data::Reader<S>,
) -> Result<Observation, ReadError> {
    let threads = Threads::of(|| reader.next_item())?;
    Ok(threads.observed(file, Format::PerfData.name(), reader.tally()))
}

fn whole(source: impl Read) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    source.take(MOST_OF_WHOLE + 1).read_to_end(&mut bytes)?;
    bytes.shrink_to_fit();
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MOST_OF_WHOLE);
    fits.then_some(bytes).ok_or(ReadError::TooLarge)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_no_capture_is_refused_with_what_would_be_one() {
        for bytes in [&b""[..], b"hello", b"{}", &[0; 100]] {
            let error = observe("f", Cursor::new(bytes), &Symbols::default()).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("is no capture that can be read; expected one of: xentrace, ")
            );
        }
    }

    /// Every capture that the readers are tested with, and what it is by its name.
    #[test]
    fn every_format_is_found_by_its_content() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/tests/data");
        let mut found = Vec::new();
        for folder in ["", "counters", "reports", "made"] {
            for entry in fs::read_dir(data.join(folder)).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap();
                let not_captures = [".md", ".format", ".instructions", ".xenalyze.txt"];
                let is_capture = !not_captures.iter().any(|end| name.ends_with(end));
                if entry.path().is_file() && is_capture {
                    let bytes = fs::read(entry.path()).unwrap();
                    let observation = observe(&name, Cursor::new(bytes), &Symbols::default());
                    let format = observation.map(|observation| observation.capture.format);
                    found.push((
                        name,
                        format.unwrap_or_else(|error| panic!("{folder}: {error}")),
                    ));
                }
            }
        }
        let formats: std::collections::BTreeSet<_> =
            found.iter().map(|(_, format)| *format).collect();
        assert!(found.len() > 20 && formats.len() >= 9, "{found:?}");
    }
}

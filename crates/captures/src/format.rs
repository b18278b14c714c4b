//! Formats of captures, recognised by their content.

use std::io::{self, Cursor, Read, Seek};

use pagetoll_causes::TraceError;
use pagetoll_counters::{debugfs, domstats, info_stats, kvm_stat, qmp as stats_of_qmp, stats_fd};
use pagetoll_ftrace::trace_text::{self, TraceTextError};
use pagetoll_ftrace::{FtraceError, FunctionGraph};
use pagetoll_observation::{Capture, Observation};
use pagetoll_perf_data::PerfDataError;
use pagetoll_reports::{
    bcc, bpftrace, kvmexit, lock_profile, migration, perf_kvm, perf_stat, xenalyze,
};
use pagetoll_text::{ReadError, paste};
use pagetoll_xentrace::XentraceError;
use pagetoll_xentrace::symbols::Symbols;
use thiserror::Error;

use crate::events::understood;
use crate::lookalike::Lookalike;
use crate::{function_graph, qmp, sections, tracepoints, xentrace};

/// Every format. A capture that could be of two is of the first.
pub static FORMATS: [Format; 20] = [
    Format {
        name: "xentrace",
        layout: Layout::Binary,
        is: pagetoll_xentrace::is_capture,
        observe: xentrace::observe,
    },
    Format {
        name: "perf.data",
        layout: Layout::Binary,
        is: pagetoll_perf_data::is_capture,
        observe: tracepoints::observe_perf_data,
    },
    Format {
        name: "KVM_GET_STATS_FD",
        layout: Layout::Binary,
        is: stats_fd::is,
        observe: |source| source.text(|text, capture| stats_fd::FORM.observe(text, capture)),
    },
    Format {
        name: "query-migrate of QMP",
        layout: Layout::Table,
        is: migration::is_qmp,
        observe: |source| source.text(qmp::observe),
    },
    Format {
        name: "info migrate of QEMU",
        layout: Layout::Report,
        is: migration::is,
        observe: |source| source.text(migration::observe_hmp),
    },
    Format {
        name: "query-stats of QMP",
        layout: Layout::Table,
        is: stats_of_qmp::is,
        observe: |source| source.text(qmp::observe),
    },
    Format {
        name: "info stats of QEMU",
        layout: Layout::Report,
        is: info_stats::is,
        observe: |source| source.text(|text, capture| info_stats::FORM.observe(text, capture)),
    },
    Format {
        name: "virsh domstats",
        layout: Layout::Table,
        is: domstats::is,
        observe: |source| source.text(|text, capture| domstats::FORM.observe(text, capture)),
    },
    Format {
        name: "kvm_stat",
        layout: Layout::Table,
        is: kvm_stat::is,
        observe: |source| source.text(kvm_stat::observe),
    },
    Format {
        name: "debugfs of KVM",
        layout: Layout::Table,
        is: debugfs::is,
        observe: |source| source.text(|text, capture| debugfs::FORM.observe(text, capture)),
    },
    Format {
        name: perf_kvm::NAME,
        layout: Layout::Report,
        is: perf_kvm::is,
        observe: |source| source.text(perf_kvm::observe),
    },
    Format {
        name: "perf stat",
        layout: Layout::Table,
        is: perf_stat::is,
        observe: |source| source.text(perf_stat::observe),
    },
    Format {
        name: "kvmexit of bcc",
        layout: Layout::Report,
        is: kvmexit::is,
        observe: |source| source.text(kvmexit::observe),
    },
    Format {
        name: "bpftrace -f json",
        layout: Layout::Table,
        is: bpftrace::is,
        observe: |source| understood(source.text(bpftrace::observe)?),
    },
    Format {
        name: "bpftrace as text",
        layout: Layout::Table,
        is: bpftrace::text::is,
        observe: |source| understood(source.text(bpftrace::text::observe)?),
    },
    Format {
        name: "summary of xenalyze",
        layout: Layout::Table,
        is: xenalyze::is,
        observe: |source| source.text(xenalyze::observe),
    },
    Format {
        name: "lock profile of Xen",
        layout: Layout::Table,
        is: lock_profile::is,
        observe: |source| source.text(lock_profile::observe),
    },
    Format {
        name: "histograms of bcc",
        layout: Layout::Table,
        is: bcc::is,
        observe: |source| understood(source.text(bcc::observe)?),
    },
    Format {
        name: "function_graph",
        layout: Layout::Trace,
        is: FunctionGraph::is_capture,
        observe: function_graph::observe,
    },
    Format {
        name: "tracepoints as text",
        layout: Layout::Trace,
        is: trace_text::is_capture,
        observe: tracepoints::observe_text,
    },
];

/// Bytes of a capture by which its format is recognised.
pub(crate) const HEAD: usize = 64 << 10;

/// Lines by which the beginning of a table is known, where its first one is not enough.
const LINES_OF_BEGINNING: usize = 4;

/// A format of captures.
#[derive(Debug)]
pub struct Format {
    /// Name in results and messages.
    pub name: &'static str,
    /// Layout of its content.
    layout: Layout,
    /// Recognises a capture by its first bytes, up to 64 KiB.
    is: fn(&[u8]) -> bool,
    /// Reads a capture to its end, or to where it is cut off.
    observe: fn(&mut Source<'_>) -> Result<Observation, CaptureError>,
}

/// Layout of a format's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Bytes.
    Binary,
    /// Text that begins with a line by which it is known.
    Table,
    /// A table below a line that may say what it is of.
    Report,
    /// Lines of which each is known by itself.
    Trace,
}

impl Format {
    /// Recognises the format of which a text's first line is the beginning, if need be by the lines below it.
    pub(crate) fn beginning(text: &[u8]) -> Option<&'static Self> {
        let of_lines = |lines: usize| {
            let mut ends = (0..text.len()).filter(|&at| text[at] == b'\n');
            let end = ends.nth(lines - 1).map_or(text.len(), |at| at + 1);
            &text[..end]
        };
        let (first, several) = (of_lines(1), of_lines(LINES_OF_BEGINNING));
        let is_text = |format: &&Self| format.layout != Layout::Binary;
        let known_by = |text| {
            FORMATS
                .iter()
                .filter(is_text)
                .find(|format| (format.is)(text))
        };
        let by_several = || known_by(several).filter(|format| format.layout != Layout::Trace);
        known_by(first).or_else(by_several)
    }

    /// The format of a trace that begins with a line of this one: later lines may be of another.
    pub(crate) fn of_trace(&'static self, text: &[u8]) -> &'static Self {
        let head = &text[..text.len().min(HEAD)];
        let is = |format: &&Self| format.layout == Layout::Trace && (format.is)(head);
        match self.layout {
            Layout::Trace => FORMATS.iter().find(is).unwrap_or(self),
            _ => self,
        }
    }

    /// True if the line above it may say what it is of.
    pub(crate) fn has_title(&self) -> bool {
        self.layout == Layout::Report
    }

    /// True if the lines of both may follow each other in one trace.
    pub(crate) fn continues(&self, other: &Self) -> bool {
        self.name == other.name || self.layout == Layout::Trace && other.layout == Layout::Trace
    }

    /// Recognises a capture by its first bytes, up to 64 KiB.
    #[must_use]
    pub fn recognise(head: &[u8]) -> Option<&'static Self> {
        FORMATS.iter().find(|format| (format.is)(head))
    }

    /// Reads a file of this format, whatever its content looks like.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn observe(
        &'static self,
        file: &str,
        content: &[u8],
        symbols: &Symbols,
    ) -> Result<Observation, CaptureError> {
        self.read(file, symbols, Content::File(&mut Cursor::new(content)))
    }

    fn read<'a>(
        &'static self,
        file: &'a str,
        symbols: &'a Symbols,
        content: Content<'a>,
    ) -> Result<Observation, CaptureError> {
        (self.observe)(&mut Source {
            file,
            format: self,
            symbols,
            content,
        })
    }
}

/// A capture that is being read.
pub(crate) struct Source<'a> {
    file: &'a str,
    format: &'static Format,
    pub(crate) symbols: &'a Symbols,
    pub(crate) content: Content<'a>,
}

/// Bytes of a capture.
pub(crate) enum Content<'a> {
    /// A source that can seek.
    File(&'a mut dyn ReadSeek),
    /// A pipe.
    Stream(&'a mut dyn Read),
}

pub(crate) trait ReadSeek: Read + Seek {}

impl<S: Read + Seek> ReadSeek for S {}

impl Source<'_> {
    /// Bytes of a file that is not read as a stream, at most. Assumed: a day of kvm_stat is below.
    const MOST_OF_WHOLE: u64 = 256 << 20;

    /// The capture's name and format; nothing else is known yet.
    pub(crate) fn capture(&self) -> Capture {
        Capture {
            file: self.file.to_owned(),
            format: self.format.name.into(),
            ..Capture::default()
        }
    }

    /// Reads all of it by a reader of texts.
    fn text(
        &mut self,
        read: impl FnOnce(&[u8], Capture) -> Result<Observation, ReadError>,
    ) -> Result<Observation, CaptureError> {
        Ok(read(&self.whole()?, self.capture())?)
    }

    /// Reads all of it.
    pub(crate) fn whole(&mut self) -> Result<Vec<u8>, CaptureError> {
        all(self)
    }
}

/// Reads all of a text.
pub(crate) fn all(source: impl Read) -> Result<Vec<u8>, CaptureError> {
    let mut bytes = Vec::new();
    let mut source = source.take(Source::MOST_OF_WHOLE + 1);
    source.read_to_end(&mut bytes)?;
    bytes.shrink_to_fit();
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= Source::MOST_OF_WHOLE);
    fits.then_some(bytes).ok_or(CaptureError::TooLarge)
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.content {
            Content::File(file) => file.read(buffer),
            Content::Stream(stream) => stream.read(buffer),
        }
    }
}

/// Failure to read a capture, worded to follow `FILE: `.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// Content of no known format.
    #[error("unrecognised capture format; expected one of: {}", FORMATS.each_ref().map(|format| format.name).join(", "))]
    Unknown,
    /// A file that is taken for a capture.
    #[error("is {}; {}", .0.name, .0.remedy)]
    Lookalike(&'static Lookalike),
    /// Recognised, but nothing of it is understood; and why, as far as it is known.
    #[error("is {format}, of which nothing is understood: {}", or_no_events(.reason))]
    Nothing {
        /// The format's name.
        format: String,
        /// Events that are not understood, and the first that lacks a field.
        reason: String,
    },
    /// Samples of perf that are no tracepoints.
    #[error(
        "samples of {0} and no tracepoint that pagetoll reads; record some: `pagetoll read --how kvm` prints the commands"
    )]
    Samples(String),
    /// More than is read at once.
    #[error("is larger than {} MiB; expected at most that of this format", Source::MOST_OF_WHOLE >> 20)]
    TooLarge,
    /// A capture of a format that has no events of pages, or of another script than that of causes.
    #[error(
        "is {0}; causes of faults are read from perf.data, from tracepoints as text (pagetoll read --how why), and from the maps of the script that `pagetoll read --how why-bpftrace --script` prints"
    )]
    NoTracepoints(String),
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A damaged xentrace.
    #[error(transparent)]
    Xentrace(#[from] XentraceError),
    /// A damaged perf.data.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// A line of a trace's text that cannot be read.
    #[error(transparent)]
    Text(#[from] TraceTextError),
    /// A line of function_graph that cannot be read.
    #[error(transparent)]
    Graph(#[from] FtraceError),
    /// Counters or a report that are not as their tool writes them.
    #[error(transparent)]
    Counted(#[from] ReadError),
    /// A trace whose pages cannot be followed.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

fn or_no_events(reason: &str) -> &str {
    match reason {
        "" => "it holds no whole event",
        reason => reason,
    }
}

/// Reads a capture of any format to its end, or to where it is cut off; errors and the result call it `file`.
///
/// # Errors
/// [`CaptureError`].
pub fn observe(
    file: &str,
    mut source: impl Read + Seek,
    symbols: &Symbols,
) -> Result<Observation, CaptureError> {
    let head = head(&mut source)?;
    source.rewind()?;
    if is_pasted(&head) {
        return sections::observe(file, all(source)?, symbols);
    }
    recognise(&head)?.read(file, symbols, Content::File(&mut source))
}

/// Reads a capture from a pipe. A file of perf must have been written to one too (`perf record -o -`).
///
/// # Errors
/// [`CaptureError`].
pub fn observe_stream(
    file: &str,
    mut source: impl Read,
    symbols: &Symbols,
) -> Result<Observation, CaptureError> {
    let head = head(&mut source)?;
    let mut whole = head.as_slice().chain(source);
    if is_pasted(&head) {
        return sections::observe(file, all(whole)?, symbols);
    }
    recognise(&head)?.read(file, symbols, Content::Stream(&mut whole))
}

/// Recognises, by its first bytes, text that is short enough for a page, or that does not begin as a tool writes it.
fn is_pasted(head: &[u8]) -> bool {
    let is_text = !head.is_empty() && !head.contains(&0);
    is_text && (head.len() < HEAD || paste::is_wrapped(head) || Format::beginning(head).is_none())
}

pub(crate) fn head(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    source.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The format of a capture, by its first bytes.
pub(crate) fn recognise(head: &[u8]) -> Result<&'static Format, CaptureError> {
    if let Some(format) = Format::recognise(head) {
        return Ok(format);
    }
    Err(Lookalike::recognise(head).map_or(CaptureError::Unknown, CaptureError::Lookalike))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Every capture that the readers are tested with is read as a format, and no format is without one.
    #[test]
    fn every_format_is_found_by_its_content() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = std::collections::BTreeSet::new();
        for folder in ["captures/tests/data", "xentrace/tests/data"] {
            for path in files(&crates.join(folder)) {
                let name = path.to_str().unwrap();
                let not_captures = [".md", ".format", ".instructions", ".xenalyze.txt"];
                if !not_captures.iter().any(|end| name.ends_with(end)) {
                    let bytes = fs::read(&path).unwrap();
                    let observation = observe(name, Cursor::new(bytes), &Symbols::default());
                    let observation = observation.unwrap_or_else(|error| panic!("{name}: {error}"));
                    found.insert(observation.capture.format);
                }
            }
        }
        for format in &FORMATS {
            assert!(found.contains(format.name), "{}: no capture", format.name);
        }
    }

    fn files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .flat_map(|path| match path.is_dir() {
                true => files(&path),
                false => vec![path],
            })
            .collect()
    }
}

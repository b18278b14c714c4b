//! A capture that is being read, and why it cannot be.

use std::io::{self, Read, Seek};

use pagetoll_causes::TraceError;
use pagetoll_ftrace::FtraceError;
use pagetoll_ftrace::trace_text::TraceTextError;
use pagetoll_observation::{Capture, Observation};
use pagetoll_perf_data::PerfDataError;
use pagetoll_text::ReadError;
use pagetoll_xentrace::XentraceError;
use pagetoll_xentrace::symbols::Symbols;
use thiserror::Error;

use crate::lookalike::Lookalike;

/// A capture that is being read.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    /// Name of its format.
    pub(crate) format: &'static str,
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
            format: self.format.into(),
            ..Capture::default()
        }
    }

    /// Reads all of it by a reader of texts.
    pub(crate) fn text(
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
    #[error("unrecognised capture format; expected one of: {expected}")]
    Unknown {
        /// The formats' names.
        expected: String,
    },
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

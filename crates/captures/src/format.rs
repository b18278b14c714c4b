//! Formats of captures, recognised by their content.

use std::io::{self, Cursor, Read};

use pagetoll_counters::{debugfs, domstats, info_stats, kvm_stat, qmp as stats_of_qmp, stats_fd};
use pagetoll_ftrace::{FunctionGraph, trace_text};
use pagetoll_observation::Observation;
use pagetoll_reports::{
    bcc, bpftrace, kvmexit, lock_profile, migration, perf_kvm, perf_stat, xenalyze,
};
use pagetoll_xentrace::symbols::Symbols;

use crate::events::understood;
use crate::lookalike::Lookalike;
use crate::source::{CaptureError, Content, Source};
use crate::{function_graph, qmp, tracepoints, xentrace};

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

    pub(crate) fn read<'a>(
        &'static self,
        file: &'a str,
        symbols: &'a Symbols,
        content: Content<'a>,
    ) -> Result<Observation, CaptureError> {
        (self.observe)(&mut Source {
            file,
            format: self.name,
            symbols,
            content,
        })
    }
}

/// The first bytes of a capture, by which its format is known.
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
    Err(Lookalike::recognise(head).map_or_else(unknown, CaptureError::Lookalike))
}

/// Content of no known format.
pub(crate) fn unknown() -> CaptureError {
    CaptureError::Unknown {
        expected: FORMATS.each_ref().map(|format| format.name).join(", "),
    }
}

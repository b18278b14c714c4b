//! Failure to follow the pages of a trace.

use std::io;

use pagetoll_ftrace::trace_text::TraceTextError;
use pagetoll_perf_data::PerfDataError;
use thiserror::Error;

/// Failure to follow the pages of a trace, worded to follow `FILE: `.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Tracepoints none of which says which page was mapped.
    #[error(
        "has neither kvmmmu:kvm_mmu_set_spte nor kvmmmu:fast_page_fault, which say which page was mapped (pagetoll read --how why)"
    )]
    NoMappings,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A damaged perf.data.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// A line of a trace's text that cannot be read.
    #[error(transparent)]
    Text(#[from] TraceTextError),
}

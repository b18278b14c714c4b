//! Messages to and from the process of a guest: an order, `ready`, the time that counts from, and a report.

use std::path::PathBuf;

use pagetoll_pager::Counts;
use serde::{Deserialize, Serialize};

/// An order to restore a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CloneOrder {
    /// Name of the mechanism.
    pub(super) mechanism: String,
    pub(super) batch: u32,
    pub(super) vcpus: usize,
    pub(super) readers: usize,
    /// A file that is open in the process that orders.
    pub(super) image: PathBuf,
    /// Pages of the image.
    pub(super) pages: u64,
    /// First word and step of an image that was made; `None` of a user's file.
    pub(super) words: Option<(u64, u64)>,
    /// Entries of the working set: offsets in bytes, with bit 0 set where the page is written.
    pub(super) touches: Vec<u64>,
    /// A recorded set, as runs of pages.
    pub(super) recorded: Vec<(u64, u64)>,
    pub(super) extent: Extent,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Extent {
    /// Every page is touched and compared.
    LastPage,
    /// The working set is there, and whatever the mechanism does in the background is done: memory is looked at.
    Set,
}

/// A line to the process of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Go {
    /// Restore: times count from this one of the monotonic clock, in nanoseconds.
    Restore(u64),
    /// All guests are there: look at the memory.
    Measure,
}

/// A line from the process of a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The machine is there, but for its memory.
    Ready,
    /// The working set is there.
    Settled,
    Report(Box<CloneReport>),
    /// The host lacks something.
    Lacking {
        what: String,
        remedy: String,
    },
    /// Anything else that went wrong.
    Failed(String),
}

/// Times and figures of one guest. Times are nanoseconds since the order to restore.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CloneReport {
    pub(super) first: u64,
    pub(super) set: u64,
    pub(super) last: u64,
    /// Longest time that a vCPU waited for one page, in nanoseconds.
    pub(super) stall: Option<f64>,
    /// Pages that guest and host found wrong, and vCPUs that read something else than they should have.
    pub(super) wrong_in_guest: u64,
    pub(super) wrong_on_host: u64,
    pub(super) misread: u64,
    /// Faults that readers or vCPU threads handled.
    pub(super) handled: Handled,
    /// Pages that were populated before they were touched, by the replay of a set or in the background.
    pub(super) ahead: Handled,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    /// CPU time of the process, in nanoseconds.
    pub(super) cpu: u64,
    /// Bytes that came from storage; `None` where the kernel does not say.
    pub(super) storage: Option<u64>,
    pub(super) kept: Option<Kept>,
    /// Pages that were populated, as runs, where a pager knows.
    pub(super) present: Vec<(u64, u64)>,
}

/// Memory behind the image, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) resident: u64,
    pub(super) pss: u64,
    pub(super) private: u64,
    pub(super) page_cache: u64,
}

/// Work of handlers, as [`Counts`] has it; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handled {
    pub(super) faults: u64,
    pub(super) calls: u64,
    pub(super) pages: u64,
    pub(super) finding: u64,
    pub(super) reading: u64,
    pub(super) installing: u64,
}

impl From<&Counts> for Handled {
    fn from(counts: &Counts) -> Self {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            faults: counts.faults,
            calls: counts.calls,
            pages: counts.pages,
            finding: nanos(counts.resolving),
            reading: nanos(counts.reading),
            installing: nanos(counts.installing),
        }
    }
}

impl Handled {
    pub(super) fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.calls += other.calls;
        self.pages += other.pages;
        self.finding += other.finding;
        self.reading += other.reading;
        self.installing += other.installing;
    }
}

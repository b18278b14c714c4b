//! Messages of the two ends of a migration.

use serde::{Deserialize, Serialize};

use super::workload::Workload;

/// Delivery of missing pages to the destination's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Missing {
    /// A thread reads a userfaultfd.
    Uffd,
    /// The vCPU leaves KVM, and its own thread fetches the page.
    Exit,
}

/// The guest that a destination is about to take.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DestinationOrder {
    /// Name of the mechanism, for errors.
    pub(super) mechanism: String,
    /// Pages of the guest.
    pub(super) pages: u64,
    /// First word and step of its content.
    pub(super) words: (u64, u64),
    pub(super) workload: Workload,
    /// Delivery of pages that are missing when the guest goes on; `None` where all are there.
    pub(super) missing: Option<Missing>,
    /// Pages that are fetched one by one before the rest, and then one between some requests for several, to time both.
    pub(super) singles: u64,
}

/// The guest goes on at the destination.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Switch {
    /// Pages that the guest wrote at the source, one after another of its working set.
    pub(super) writes: u64,
    /// Runs of pages, first and number, that the destination lacks or has as they were before.
    pub(super) missing: Vec<(u64, u64)>,
}

/// A line from the destination.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The machine is there.
    Ready,
    Report(Report),
    /// The host lacks something.
    Lacking {
        what: String,
        remedy: String,
    },
    /// Anything else that went wrong.
    Failed(String),
}

/// Burst of writes of the guest. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Burst {
    pub(super) begun: u64,
    /// Time that it took, without that of entering the guest.
    pub(super) time: u64,
    pub(super) pages: u64,
}

/// Pages that were fetched one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Singles {
    pub(super) pages: u64,
    /// Nanoseconds in which all of them were fetched and put in place.
    pub(super) time: u64,
}

impl Singles {
    pub(super) fn add(&mut self, time: u64) {
        self.pages += 1;
        self.time += time;
    }

    /// Nanoseconds of one: a mean, since the scheduler's choice of a CPU for the threads of both ends decides whether it is 15 or
    /// 100 us.
    pub(super) fn mean(self) -> f64 {
        self.time as f64 / self.pages.max(1) as f64
    }
}

/// Findings of the destination. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// First exit of the guest, which it made by its first instruction.
    pub(super) resumed: u64,
    /// Arrival of the last page; that of the guest where none was missing.
    pub(super) last: u64,
    pub(super) bursts: Vec<Burst>,
    /// Pages that the guest waited for.
    pub(super) waited_for: u64,
    /// Pages that were fetched one by one before the rest.
    pub(super) singles: Singles,
    /// Pages that were fetched by themselves between requests for several.
    pub(super) between: Singles,
    /// Pages with a wrong word in the end.
    pub(super) wrong: u64,
}

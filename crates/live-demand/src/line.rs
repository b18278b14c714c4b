//! A line of a bill before it is a row: a mechanism on so many vCPUs with a batch, and its runs.

use std::fmt;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::live::Demand;

use super::folios::Folios;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::limits::Lacking;
use pagetoll_pager::Counts;

/// Parameters of a row's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mechanism: Demand,
    pub(super) vcpus: u32,
    pub(super) batch: u32,
    /// Pages of each vCPU.
    pub(super) pages: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mechanism, vcpus) = (self.mechanism.properties().name, self.vcpus);
        write!(f, "{mechanism} on {vcpus} vCPUs, batch {}", self.batch)
    }
}

/// Times, counts and failed checks of one run.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// From the first vCPU's start to the last one's end, in nanoseconds.
    pub(super) wall: f64,
    /// Times of all vCPU threads together.
    pub(super) vcpus: Scheduled,
    /// Times of all readers together.
    pub(super) readers: Scheduled,
    /// Faults that vCPU threads resolved, and readers.
    pub(super) by_vcpus: Counts,
    pub(super) by_readers: Counts,
    pub(super) folios: Folios,
    /// Pages that guest and host found wrong afterwards.
    pub(super) wrong_in_guest: u64,
    pub(super) wrong_in_host: u64,
    /// vCPUs whose sum of what they read was wrong.
    pub(super) misread: u64,
}

impl Measured {
    /// Faults that vCPU threads and readers resolved.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.by_vcpus;
        counts.add(&self.by_readers);
        counts
    }
}

/// The runs of a line, or why it has none.
pub(super) type Outcome = Result<Vec<Measured>, Lacking>;

/// A line and its runs.
#[derive(Clone, Debug)]
pub(super) struct LineRuns {
    pub(super) line: Line,
    pub(super) outcome: Outcome,
}

/// A line of the kernel's own test, and the rate of each of its runs: pages of all vCPUs in a second.
#[derive(Clone, Debug)]
pub(super) struct SelftestRuns {
    pub(super) line: Line,
    pub(super) rates: Vec<f64>,
}

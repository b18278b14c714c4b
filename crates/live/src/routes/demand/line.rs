//! A line of a bill before it is a row: a mechanism on so many vCPUs with a batch, and its runs.

use std::fmt;

use pagetoll_bill::route::{Demand, RouteMechanism};

use super::run::Measured;

/// What a row is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mechanism: Demand,
    pub(super) vcpus: u32,
    pub(super) batch: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mechanism, vcpus) = (self.mechanism.properties().name, self.vcpus);
        write!(f, "{mechanism} on {vcpus} vCPUs, batch {}", self.batch)
    }
}

/// The runs of a line, or why it has none.
pub(super) type Outcome = Result<Vec<Measured>, Lacking>;

/// What the host lacks, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) what: String,
    pub(super) remedy: String,
}

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

//! A line of a bill before it is rows: a mechanism in a setting, and its runs.

use std::fmt;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Restore;
use pagetoll_bill::row::{Moment, PageCache};

use super::clones::Wrong;
use super::conversation::{CloneReport, Kept};
use super::prediction::Rehearsals;
use pagetoll_live_host::limits;

/// Parameters of the runs of three rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mechanism: Restore,
    pub(super) batch: u32,
    pub(super) vcpus: u32,
    pub(super) cache: PageCache,
    /// Guests at once.
    pub(super) clones: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.mechanism.properties().name;
        let Self {
            batch,
            vcpus,
            cache,
            clones,
            ..
        } = self;
        write!(
            f,
            "{name}, batch {batch}, {cache}, {clones} x {vcpus} vCPUs"
        )
    }
}

/// Measurements of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Reports of the guests of each run.
    pub(super) runs: Vec<Vec<CloneReport>>,
    /// Memory of the guests once the working set is there.
    pub(super) kept: Vec<Kept>,
    /// Memory of a guest that touched nothing.
    pub(super) untouched: Option<Kept>,
    /// Replays by which those of `runs` are predicted.
    pub(super) rehearsals: Rehearsals,
    /// Pages in memory over time, of a guest alone.
    pub(super) resident: Vec<Moment>,
    /// Failures of a guest whose image lacks a page.
    pub(super) control: Wrong,
}

impl Measured {
    /// Reports of all guests of all timed runs.
    pub(super) fn reports(&self) -> impl Iterator<Item = &CloneReport> {
        self.runs.iter().flatten()
    }
}

/// A line and its measurements, or why it has none.
pub(super) type LineRuns = limits::LineRuns<Line, Measured>;

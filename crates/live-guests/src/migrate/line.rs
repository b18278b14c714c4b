//! A line of a bill before it is rows: a mechanism and its runs.

use std::fmt;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Migrate;

use super::source::Run;
use pagetoll_live_host::limits;

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line(pub(super) Migrate);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.properties().name)
    }
}

/// Measurements of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) runs: Vec<Run>,
    /// Migrations of a guest that writes nothing.
    pub(super) idle: Vec<Run>,
    /// Pages that a comparison finds wrong where one word was changed on the way.
    pub(super) control: u64,
}

/// A line and its measurements, or why it has none.
pub(super) type LineRuns = limits::LineRuns<Line, Measured>;

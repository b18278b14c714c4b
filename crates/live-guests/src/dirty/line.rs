//! A line of a bill before it is rows: a mechanism on memory of a shape, and its runs.

use std::fmt;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::{EventCoverage, Folio};
use pagetoll_bill::spec::Ring;

use super::control::Control;
use super::run::Run;
use pagetoll_live_host::limits;

/// A mechanism on memory of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) mechanism: Dirty,
    pub(crate) folio: Folio,
    /// Privilege level of the guest.
    pub(crate) ring: Ring,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.mechanism.properties().name;
        write!(f, "{name}, {}", self.folio)
    }
}

/// Measurements of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) runs: Vec<Run>,
    pub(super) control: Control,
    pub(super) events: Vec<EventCoverage>,
}

/// A line and its measurements, or why it has none.
pub(super) type LineRuns = limits::LineRuns<Line, Measured>;

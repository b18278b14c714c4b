//! A line of a bill before it is rows: a call on memory of a backing, in chunks of a size, and its runs.

use std::fmt;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Discard;
use pagetoll_bill::row::{Backing, Found};

use super::memory::Held;
use pagetoll_live_host::limits;

/// Parameters of the runs of three rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) backing: Backing,
    pub(super) call: Discard,
    /// Pages of a chunk.
    pub(super) batch: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.call.properties().name;
        let Self { backing, batch, .. } = self;
        write!(f, "{backing}, {name}, {batch} pages at once")
    }
}

impl Line {
    /// Contents that a page may have after the call.
    pub(super) const fn promised(&self) -> &'static [Found] {
        self.call.promised(self.backing)
    }
}

/// Touches of a set of pages: nanoseconds, and faults where KVM counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Touches {
    pub(super) nanos: f64,
    pub(super) faults: Option<u64>,
}

/// Pages of each content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) zeroes: u64,
    pub(super) old: u64,
    pub(super) file: u64,
}

impl Contents {
    pub(super) const fn pages(self, found: Found) -> u64 {
        match found {
            Found::Zeroes => self.zeroes,
            Found::Old => self.old,
            Found::File => self.file,
            Found::Mixed => 0,
        }
    }
}

/// A run: half of the chunks of the guest's memory are discarded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Pages discarded, and all others.
    pub(super) discarded: u64,
    pub(super) beside: u64,
    /// Nanoseconds of the calls.
    pub(super) calls: f64,
    pub(super) before: Held,
    pub(super) after: Held,
    /// The pages beside, touched before the calls and after them.
    pub(super) present: Touches,
    pub(super) beside_again: Touches,
    pub(super) again: Touches,
    pub(super) contents: Contents,
    /// Pages beside that hold something else than before.
    pub(super) wrong_beside: u64,
}

/// Single calls far from one another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Singles {
    /// Calls of which each was looked at by itself, while the guest stood still.
    pub(super) calls: u64,
    /// Pages that they took from stage 2; absent where KVM does not count them.
    pub(super) taken: Option<u64>,
    /// Calls while the guest ran.
    pub(super) running: u64,
    /// Faults of the guest on pages beside meanwhile.
    pub(super) faults: Option<u64>,
}

/// Measurements of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) runs: Vec<Run>,
    pub(super) singles: Singles,
    /// A run whose calls were one chunk beside their places, by a call that frees.
    pub(super) wrong_place: Run,
}

/// A line and its measurements, or why it has none.
pub(super) type LineRuns = limits::LineRuns<Line, Measured>;

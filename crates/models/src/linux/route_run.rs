//! The result of a run of a route.

use crate::xen::Tolls;

/// Comparisons of every item with the known answer. All counts but `items` are failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Items that were compared.
    pub items: u64,
    /// Entries that were returned with another frame.
    pub wrong_frame: u64,
    /// Entries that were returned with other flags than they had, A and D aside.
    pub wrong_flags: u64,
    /// Entries whose A was lost.
    pub lost_accessed: u64,
    /// Entries whose D was lost.
    pub lost_dirty: u64,
    /// Entries that are not `pte_none()` afterwards.
    pub not_none: u64,
    /// Entries or descriptors that are not what was set.
    pub wrong_value: u64,
    /// Frames whose counts are not what they were before the entries were made.
    pub wrong_counts: u64,
    /// Events that were sent and not handled, or handled and not sent.
    pub lost_events: u64,
}

impl Comparison {
    /// Number of failures.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.wrong_frame
            + self.wrong_flags
            + self.lost_accessed
            + self.lost_dirty
            + self.not_none
            + self.wrong_value
            + self.wrong_counts
            + self.lost_events
    }
}

/// The run of a route by one mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteRun {
    /// Number of pages, switches or enables.
    pub items: u64,
    /// Tolls of the run, without its preparation.
    pub tolls: Tolls,
    /// Comparisons with the known answer.
    pub checked: Comparison,
}

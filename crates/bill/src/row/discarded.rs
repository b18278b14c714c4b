//! Figures of discarded memory beside the cost of a page.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Memory that the host has back once a discard has returned.
    pub enum Frees as "frees" {
        /// Every byte that was discarded.
        All,
        /// A part of it.
        Part,
        /// None of it yet: once memory is short.
        Later,
        /// None of it.
        Nothing,
    }
}

names! {
    /// Content of discarded memory when the guest uses it again.
    pub enum Found as "found" {
        /// Zeroes.
        Zeroes,
        /// The words of before the discard.
        Old,
        /// The words of the file that is mapped privately, which the guest had written over.
        File,
        /// Not the same in all pages.
        Mixed,
    }
}

names! {
    /// Moment at which the host clears discarded memory.
    pub enum Cleared as "cleared" {
        /// In the call.
        Call,
        /// At the next touch, for the page that takes its place.
        Touch,
        /// Never.
        Never,
    }
}

/// Memory that discards gave back, and what else they took from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Discarded {
    /// Verdict of `held` and `freed_later`.
    pub frees: Frees,
    /// Bytes that the host still holds for the guest once the calls have returned, for each byte discarded.
    pub held: f64,
    /// Bytes of those that it takes back once memory is short, for each byte discarded.
    pub freed_later: f64,
    /// Bytes by which the resident set size (RSS) of the guest's memory fell, for each byte discarded.
    pub rss: f64,
    /// Bytes of page cache that stay behind a private mapping of a file, for each byte discarded; absent for other memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<f64>,
    /// Pages of 4 KiB that a single call took from KVM's stage-2 tables; absent where KVM does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_per_call: Option<f64>,
    /// Pages of those that lie outside the range of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_per_call: Option<f64>,
    /// Faults that a running guest took on pages outside the range of a single call; absent where KVM does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults_beside_per_call: Option<f64>,
    /// Content of the memory when the guest uses it again.
    pub found: Found,
    /// Moment at which the host clears it.
    pub cleared: Cleared,
    /// Cost of a page of 4 KiB that this host clears, in the unit of the bill: what a guest pays once more that clears it, too.
    pub clearing: f64,
}

impl Discarded {
    /// Share that is all: some pages wait in batches for the LRU lists of each CPU (mm/swap.c).
    const ALL: f64 = 0.9;
    /// Share that is nothing.
    const NOTHING: f64 = 0.1;

    /// The verdict of these shares.
    #[must_use]
    pub fn verdict(held: f64, freed_later: f64) -> Frees {
        let is_nothing = |share: f64| share <= Self::NOTHING;
        let is_all = |share: f64| share >= Self::ALL;
        if is_nothing(held) {
            Frees::All
        } else if is_all(held) && is_all(freed_later) {
            Frees::Later
        } else if is_all(held) && is_nothing(freed_later) {
            Frees::Nothing
        } else {
            Frees::Part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_follows_from_both_shares() {
        let verdicts = [(0.0, 0.0), (0.01, 0.0), (1.0, 0.99), (0.5, 0.5), (1.0, 0.0)];
        let verdicts = verdicts.map(|(held, later)| Discarded::verdict(held, later));
        let expected = [
            Frees::All,
            Frees::All,
            Frees::Later,
            Frees::Part,
            Frees::Nothing,
        ];
        assert_eq!(verdicts, expected);
    }
}

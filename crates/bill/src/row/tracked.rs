//! Coverage of dirty tracking: what is reported beside what was written, and events other than a guest's write.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// An event that changes pages, or what lies behind them, while they are tracked.
    pub enum PageEvent as "event" {
        /// The VMM writes pages by their addresses in its process.
        VmmWrite,
        /// Pages are discarded, and read as zeroes.
        Discarded,
        /// Pages are discarded, and the guest writes them again.
        DiscardedAndWritten,
        /// Written pages are swapped out.
        SwappedOut,
        /// Written pages are migrated to other frames by compaction.
        Migrated,
        /// The huge page of written pages is split.
        Split,
        /// Written pages are collapsed into a huge page.
        Collapsed,
        /// The VMM forks after some pages were written and before others are.
        Forked,
        /// A device writes pages by DMA.
        DeviceWrite,
    }
}

names! {
    /// Coverage of an event by a mechanism.
    pub enum Coverage as "coverage" {
        /// Every changed page was reported.
        Covered,
        /// Changed pages were not reported.
        NotCovered,
        /// The event did not happen.
        Untested,
    }
}

/// An event that was tried on a mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCoverage {
    /// The event.
    pub event: PageEvent,
    /// Number of pages that it changed, or that the guest wrote around it.
    pub tried: u64,
    /// Number of those whose content a copy lacks that is made of the pages reported afterwards.
    pub lost: u64,
    /// The coverage that follows.
    pub coverage: Coverage,
    /// Reason for which the event did not happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl EventCoverage {
    /// The coverage of an event that changed pages.
    #[must_use]
    pub fn of_pages(event: PageEvent, tried: u64, lost: u64) -> Self {
        Self {
            event,
            tried,
            lost,
            coverage: match (tried, lost) {
                (0, _) => Coverage::Untested,
                (_, 0) => Coverage::Covered,
                _ => Coverage::NotCovered,
            },
            reason: None,
        }
    }

    /// An event that did not happen.
    #[must_use]
    pub fn untested(event: PageEvent, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::of_pages(event, 0, 0)
        }
    }
}

/// A span of time of a guest that rewrites its pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Nanoseconds from when rewriting began until this does.
    pub start: f64,
    /// Nanoseconds that it takes.
    pub nanoseconds: f64,
}

/// Rounds of a guest that rewrites all its pages while they are tracked, and harvests beside it, in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rewriting {
    /// Rounds in the order of time: at most 64, at equal distances among all.
    pub rounds: Vec<Span>,
    /// Harvests, each with the arming after it, as many at most.
    pub harvests: Vec<Span>,
}

impl Rewriting {
    /// Spans that are kept of each kind.
    pub const MOST: usize = 64;

    /// The rounds and harvests that are kept of all.
    #[must_use]
    pub fn new(rounds: &[Span], harvests: &[Span]) -> Self {
        let kept = |spans: &[Span]| {
            let stride = spans.len().div_ceil(Self::MOST).max(1);
            spans.iter().step_by(stride).copied().collect()
        };
        Self {
            rounds: kept(rounds),
            harvests: kept(harvests),
        }
    }
}

/// Reports of a mechanism that tracks written pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tracked {
    /// Pages that were written in rounds in which others were not.
    pub written: u64,
    /// Pages that were reported in those rounds.
    pub reported: u64,
    /// Events that were tried.
    pub events: Vec<EventCoverage>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rounds_are_thinned_evenly() {
        let spans = |count: u32| -> Vec<Span> {
            let span = |number| Span {
                start: f64::from(number),
                nanoseconds: 1.0,
            };
            (0..count).map(span).collect()
        };
        let kept = Rewriting::new(&spans(64), &spans(65));
        assert_eq!((kept.rounds.len(), kept.harvests.len()), (64, 33));
        assert_eq!(kept.harvests[32].start, 64.0);
        assert_eq!(Rewriting::new(&[], &[]), Rewriting::default());
    }

    #[test]
    fn coverage_follows_from_the_pages() {
        let coverage =
            |tried, lost| EventCoverage::of_pages(PageEvent::VmmWrite, tried, lost).coverage;
        assert_eq!(coverage(512, 0), Coverage::Covered);
        assert_eq!(coverage(512, 1), Coverage::NotCovered);
        assert_eq!(coverage(0, 0), Coverage::Untested);
        let untested = EventCoverage::untested(PageEvent::SwappedOut, "no swap space");
        assert_eq!(untested.coverage, Coverage::Untested);
    }
}

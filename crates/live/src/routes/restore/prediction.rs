//! The time of a replay on a run that touches other pages than were recorded, predicted before it is measured. Pure.
//!
//! A replay of the set on the very run that it was recorded on says what its copies cost and what a touch of a page costs
//! that is there. The lines of `uffd` say what a fault costs and each page that is copied in it. How many faults and
//! pages there will be follows from both sets and the batch.

use std::collections::HashSet;

/// Costs that are known before a replay is measured, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Time of the first instruction, after the set has been copied.
    pub(super) first: f64,
    /// A touch of a page that is there.
    pub(super) touch: f64,
    /// A fault, beside its pages.
    pub(super) fault: f64,
    /// A page that is copied in a fault.
    pub(super) page: f64,
}

/// Touches of a working set by faults on demand: how many faults and pages copied, touches of pages that were there, and the
/// time of all, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OnDemand {
    pub(super) faults: f64,
    pub(super) pages: f64,
    pub(super) touches: f64,
    pub(super) time: f64,
}

impl OnDemand {
    /// The costs of a fault and of a page in it. Lines whose faults have as many pages each do not tell them apart: then
    /// all is the fault's.
    pub(super) fn split(self, other: Self, touch: f64) -> (f64, f64) {
        let rest = |line: Self| line.time - line.touches * touch;
        let determinant = self.faults * other.pages - other.faults * self.pages;
        if determinant.abs() < 1e-9 * self.pages * other.pages {
            return (rest(self) / self.faults.max(1.0), 0.0);
        }
        let fault = (rest(self) * other.pages - rest(other) * self.pages) / determinant;
        let page = (self.faults * rest(other) - other.faults * rest(self)) / determinant;
        (fault.max(0.0), page.max(0.0))
    }
}

/// Sets of a replay, and how many pages a fault populates at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay<'a> {
    /// Pages that the guest touches, in order.
    pub(super) set: &'a [u64],
    /// Runs of pages that were recorded.
    pub(super) recorded: &'a [(u64, u64)],
    /// Pages of the image.
    pub(super) pages: u64,
    pub(super) batch: u64,
}

impl Replay<'_> {
    /// Time until the working set has been touched, in nanoseconds.
    pub(super) fn time(self, costs: Costs) -> f64 {
        let (faults, pages) = self.faults();
        let there = self.set.len() as f64 - faults as f64;
        costs.first + there * costs.touch + faults as f64 * costs.fault + pages as f64 * costs.page
    }

    /// Faults on demand after the replay, and pages that they populate: each the longest run of missing pages around the one
    /// that is touched, within an aligned block, as the pager does.
    fn faults(self) -> (u64, u64) {
        let recorded = self.recorded.iter();
        let mut present: HashSet<u64> = recorded.flat_map(|(first, n)| *first..first + n).collect();
        let (mut faults, mut pages) = (0, 0);
        for &page in self.set {
            if present.contains(&page) {
                continue;
            }
            let start = page - page % self.batch;
            let end = (start + self.batch).min(self.pages);
            let first = (start..page).rev().find(|other| present.contains(other));
            let last = (page + 1..end).find(|other| present.contains(other));
            let run = first.map_or(start, |other| other + 1)..last.unwrap_or(end);
            faults += 1;
            pages += run.end - run.start;
            present.extend(run);
        }
        (faults, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_and_a_page_are_told_apart_by_two_batches() {
        // 9000 a fault, 300 a page, and 100 a touch.
        let line = |faults: f64, pages: f64, touches: f64| OnDemand {
            faults,
            pages,
            touches,
            time: 9000.0 * faults + 300.0 * pages + 100.0 * touches,
        };
        let (one, many) = (line(100.0, 100.0, 0.0), line(20.0, 1280.0, 80.0));
        let (fault, page) = one.split(many, 100.0);
        assert!((fault - 9000.0).abs() < 1e-6 && (page - 300.0).abs() < 1e-6);
        assert_eq!(one.split(one, 100.0), (9300.0, 0.0));
    }

    #[test]
    fn a_replay_is_its_copies_its_touches_and_the_faults_that_it_missed() {
        let costs = Costs {
            first: 10_000.0,
            touch: 100.0,
            fault: 9000.0,
            page: 300.0,
        };
        let replay = |set: &'static [u64], batch| Replay {
            set,
            recorded: &[(0, 4), (9, 1)],
            pages: 20,
            batch,
        };
        // 0 and 9 are there. 10 is missed with 11 to 15 behind it, which makes 12 present.
        let (one, eight) = (replay(&[0, 10, 9, 12], 1), replay(&[0, 10, 9, 12], 8));
        assert_eq!((one.faults(), eight.faults()), ((2, 2), (1, 6)));
        assert_eq!(one.time(costs), 10_000.0 + 200.0 + 2.0 * 9300.0);
        assert_eq!(eight.time(costs), 10_000.0 + 300.0 + 9000.0 + 1800.0);
        // The last block is cut off by the end of the image.
        assert_eq!(replay(&[19], 8).faults(), (1, 4));
    }
}

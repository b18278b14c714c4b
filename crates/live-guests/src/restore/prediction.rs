//! The time of a replay on a run that touches other pages than were recorded, predicted before it is measured. Pure.
//!
//! The costs come from two rehearsals, in which guests touch the recorded set. The first replays the whole set, and gives the
//! cost of a copy and of an access to a resident page. The second leaves pages out of the replay, and gives the cost of a fault:
//! the reader sleeps before each, since accesses to resident pages come between, so that they cost more than faults back to back.
//! The number of faults follows from both sets and the batch.

use std::collections::HashSet;

use pagetoll_bill::row::median;

use super::conversation::CloneReport;
use super::touches::Choice;

/// Costs that are known before a replay is measured, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Time of the first instruction, after the set has been copied.
    first: f64,
    /// A touch of a page that is there.
    touch: f64,
    /// A touch of a page that is missing, with all that is copied for it.
    fault: f64,
}

/// A set that another run recorded, and what rehearsals touch and replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// Its runs of pages.
    pub(super) runs: Vec<(u64, u64)>,
    /// Its pages, in another order.
    pub(super) touched: Vec<u64>,
    /// A set that has as much in common with it as it has with what is touched.
    pub(super) partial: Vec<(u64, u64)>,
}

impl Recorded {
    pub(super) fn new(runs: Vec<(u64, u64)>, choice: Choice, overlap: u32) -> Self {
        let pages: Vec<u64> = runs
            .iter()
            .flat_map(|(first, count)| *first..first + count)
            .collect();
        let partial = choice.recorded(&pages, overlap).into_iter();
        Self {
            runs,
            partial: partial.map(|page| (page, 1)).collect(),
            touched: choice.shuffled_set(pages),
        }
    }
}

/// Replays whose guests touch the recorded set.
#[derive(Clone, Debug, Default)]
pub(super) struct Rehearsals {
    /// Every page is replayed.
    pub(super) whole: Vec<CloneReport>,
    /// Some pages are missing.
    pub(super) partial: Vec<CloneReport>,
}

impl Rehearsals {
    /// Costs by the medians over guests, as is the figure that a prediction is held against; `None` where nothing was
    /// replayed.
    pub(super) fn costs(&self, partial: Replay<'_>) -> Option<Costs> {
        let touched = |report: &CloneReport| (report.set - report.first) as f64;
        let touches = partial.set.len() as f64;
        let touch = typical(&self.whole, touched)? / touches;
        let faults = partial.faults() as f64;
        let fault =
            (typical(&self.partial, touched)? - (touches - faults) * touch) / faults.max(1.0);
        Some(Costs {
            first: typical(&self.whole, |report| report.first as f64)?,
            touch,
            fault: fault.max(0.0),
        })
    }
}

fn typical<'r>(
    reports: impl IntoIterator<Item = &'r CloneReport>,
    value: impl Fn(&CloneReport) -> f64,
) -> Option<f64> {
    let values: Vec<f64> = reports.into_iter().map(value).collect();
    median(&values)
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
        let faults = self.faults() as f64;
        let there = self.set.len() as f64 - faults;
        costs.first + there * costs.touch + faults * costs.fault
    }

    /// Faults on demand after the replay. Each populates the longest run of missing pages around the one that is touched,
    /// within an aligned block, as the pager does.
    fn faults(self) -> u64 {
        let recorded = self.recorded.iter();
        let mut present: HashSet<u64> = recorded.flat_map(|(first, n)| *first..first + n).collect();
        let mut faults = 0;
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
            present.extend(run);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(first: u64, set: u64) -> CloneReport {
        CloneReport {
            first,
            set,
            ..CloneReport::default()
        }
    }

    #[test]
    fn a_fault_costs_what_a_rehearsal_with_missing_pages_takes_longer() {
        // Four touches of 100 ns; two faults of 9000 in the second.
        let rehearsals = Rehearsals {
            whole: vec![report(500, 900), report(700, 1100), report(90, 490)],
            partial: vec![report(400, 400 + 200 + 18_000)],
        };
        let costs = Costs {
            first: 500.0,
            touch: 100.0,
            fault: 9000.0,
        };
        let partial = Replay {
            set: &[0, 10, 9, 12],
            recorded: &[(0, 4), (9, 1)],
            pages: 20,
            batch: 1,
        };
        assert_eq!(rehearsals.costs(partial), Some(costs));
        let nothing_missing = Replay {
            recorded: &[(0, 20)],
            ..partial
        };
        let costs = rehearsals.costs(nothing_missing).unwrap();
        assert_eq!(nothing_missing.time(costs), 900.0);
        assert_eq!(Rehearsals::default().costs(partial), None);
    }

    #[test]
    fn rehearsals_touch_all_that_was_recorded_and_replay_a_part_of_it() {
        let choice = Choice {
            seed: 7,
            pages: 1000,
        };
        let recorded = Recorded::new(vec![(100, 40), (200, 60)], choice, 90);
        let mut touched = recorded.touched.clone();
        touched.sort_unstable();
        assert!(touched.into_iter().eq((100..140).chain(200..260)));
        let replayed = recorded.partial.iter().map(|(page, _)| page);
        let again = replayed.filter(|page| recorded.touched.contains(page));
        assert_eq!((recorded.partial.len(), again.count()), (100, 90));
    }

    #[test]
    fn a_replay_is_its_copies_its_touches_and_the_faults_that_it_missed() {
        let costs = Costs {
            first: 10_000.0,
            touch: 100.0,
            fault: 9000.0,
        };
        let replay = |set: &'static [u64], batch| Replay {
            set,
            recorded: &[(0, 4), (9, 1)],
            pages: 20,
            batch,
        };
        // 0 and 9 are there. 10 is missed with 11 to 15 behind it, which makes 12 present.
        let (one, eight) = (replay(&[0, 10, 9, 12], 1), replay(&[0, 10, 9, 12], 8));
        assert_eq!((one.faults(), eight.faults()), (2, 1));
        assert_eq!(one.time(costs), 10_000.0 + 200.0 + 2.0 * 9000.0);
        assert_eq!(eight.time(costs), 10_000.0 + 300.0 + 9000.0);
        // The last block is cut off by the end of the image.
        assert_eq!(replay(&[19, 16], 8).faults(), 1);
    }
}

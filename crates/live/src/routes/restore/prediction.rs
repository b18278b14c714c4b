//! The time of a replay on a run that touches other pages than were recorded, predicted before it is measured. Pure.
//!
//! Two replays for guests that touch the recorded set say what it takes: one of that very set what its copies cost and a touch
//! of a page that is there, one of a set that lacks some of its pages what a touch costs that finds its page missing. Such a fault comes
//! after touches that found theirs, when the reader sleeps, and is not as fast as one after another fault. How many faults
//! there will be follows from both sets and the batch.

use std::collections::HashSet;

use pagetoll_bill::row::median;

use super::conversation::CloneReport;

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

/// Replays whose guests touch the recorded set.
#[derive(Clone, Debug, Default)]
pub(super) struct Rehearsals {
    /// Of that very set.
    pub(super) whole: Vec<CloneReport>,
    /// Of a set that lacks some of its pages.
    pub(super) partial: Vec<CloneReport>,
}

impl Rehearsals {
    /// Costs by the medians over guests, as is the figure that a prediction is held against; `None` where nothing was
    /// replayed. `touches` are those of each guest.
    pub(super) fn costs(&self, touches: u64) -> Option<Costs> {
        let touched = |report: &CloneReport| (report.set - report.first) as f64;
        let touch = typical(&self.whole, touched)? / touches as f64;
        let missed = self
            .partial
            .iter()
            .filter(|report| report.handled.faults > 0);
        let fault = typical(missed, |report| {
            let faults = report.handled.faults as f64;
            (touched(report) - (touches as f64 - faults) * touch) / faults
        });
        Some(Costs {
            first: typical(&self.whole, |report| report.first as f64)?,
            touch,
            fault: fault.unwrap_or(touch).max(0.0),
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
    use crate::routes::restore::conversation::Handled;

    fn report(first: u64, set: u64, faults: u64) -> CloneReport {
        CloneReport {
            first,
            set,
            handled: Handled {
                faults,
                ..Handled::default()
            },
            ..CloneReport::default()
        }
    }

    #[test]
    fn a_fault_costs_what_a_replay_partial_takes_longer() {
        // 20 touches of 100 ns; three faults of 9000 in one guest, two in another, none in the last.
        let rehearsals = Rehearsals {
            whole: vec![
                report(500, 2500, 0),
                report(700, 2700, 0),
                report(90, 2090, 0),
            ],
            partial: vec![
                report(400, 400 + 1700 + 27_000, 3),
                report(300, 300 + 1800 + 18_000, 2),
                report(300, 2300, 0),
            ],
        };
        let costs = Costs {
            first: 500.0,
            touch: 100.0,
            fault: 9000.0,
        };
        assert_eq!(rehearsals.costs(20), Some(costs));
        assert_eq!(Rehearsals::default().costs(20), None);
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

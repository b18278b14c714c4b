//! The cost of a page item by item. Pure.
//!
//! Items are those of the run in the middle, whose cost is the row's; of an even number of runs, those of two. Handlers time what
//! they do. What is left after that and after touching, which is what `populated` costs with as many vCPUs, is the difference of
//! two wall times of different runs, each with its own noise; divided by the few faults of a large batch, noise of 100 ns a page
//! became thousands of nanoseconds of either sign. Runs of all mechanisms take turns, so the difference is taken turn by turn,
//! which cancels drift. Where another bill's could be less than nothing, it is no item of its own, and stays together with
//! touching.

use std::time::Duration;

use pagetoll_bill::Toll;
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::row::{Interval, median};

use pagetoll_pager::Counts;

/// One run of a line, in nanoseconds for each page of a vCPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) cost: f64,
    pub(super) counts: Counts,
    /// Cost of the run of `populated` in the same turn; `None` where that is not measured, or is this line.
    pub(super) touch: Option<f64>,
}

impl Turn {
    /// The cost without what handlers timed and without touching.
    fn rest(&self, pages: f64) -> f64 {
        let timed: Vec<Toll> = timed(&self.counts, pages).collect();
        self.cost - Toll::sum(&timed) - self.touch.unwrap_or(0.0)
    }
}

/// The items of runs over `pages` pages each; they sum to the median of their costs.
pub(super) fn tolls(mechanism: Demand, turns: &[Turn], pages: f64) -> Vec<Toll> {
    let costs: Vec<f64> = turns.iter().map(|turn| turn.cost).collect();
    let Some(cost) = median(&costs) else {
        return Vec::new();
    };
    let touches: Option<Vec<f64>> = turns.iter().map(|turn| turn.touch).collect();
    let touch = touches.as_deref().and_then(median);
    let middle = middle(turns);
    let pages_of_middle = pages * middle.len() as f64;
    let mut counts = Counts::default();
    middle.iter().for_each(|turn| counts.add(&turn.counts));
    let mut items: Vec<Toll> = timed(&counts, pages_of_middle).collect();
    let (name, count) = match (mechanism, counts.faults) {
        (Demand::Populated, _) => ("", 1.0),
        (Demand::Kernel, _) => ("fault", 1.0),
        (Demand::Uffd, faults) => ("deliver-and-wake", faults as f64 / pages_of_middle),
        (Demand::Exit | Demand::ExitGmem, faults) => {
            ("exit-and-enter", faults as f64 / pages_of_middle)
        }
    };
    let untimed = cost - Toll::sum(&items);
    let rests: Vec<f64> = turns.iter().map(|turn| turn.rest(pages)).collect();
    let is_resolved = Interval::of_another_bill(&rests).is_some_and(|rest| rest.low > 0.0);
    match touch.filter(|touch| is_resolved && count > 0.0 && untimed > *touch) {
        Some(touch) => {
            items.insert(0, Toll::once("touch", touch));
            items.push(Toll::new(name, count, (untimed - touch) / count));
        }
        None if mechanism == Demand::Populated => items.push(Toll::once("touch", untimed)),
        None => items.push(Toll::once(format!("touch+{name}"), untimed)),
    }
    items
}

/// The one or the two turns whose costs are the median.
fn middle(turns: &[Turn]) -> Vec<Turn> {
    let mut sorted = turns.to_vec();
    sorted.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let skipped = sorted.len().saturating_sub(1) / 2;
    sorted[skipped..sorted.len() - skipped].to_vec()
}

/// Items that handlers have timed; those that took no time are left out.
fn timed(counts: &Counts, pages: f64) -> impl Iterator<Item = Toll> {
    let found = counts.reported + counts.decoded;
    let items = [
        ("find-page", found, counts.resolving),
        ("read-source", counts.calls, counts.reading),
        ("install", counts.calls, counts.installing),
    ];
    let took_time = |item: &(&str, u64, Duration)| item.1 > 0 && !item.2.is_zero();
    items
        .into_iter()
        .filter(took_time)
        .map(move |(name, count, time)| {
            let each = time.as_secs_f64() * 1e9 / count as f64;
            Toll::new(name, count as f64 / pages, each)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault for each 64 pages, as with a batch of 64.
    fn turn(cost: f64, touch: f64) -> Turn {
        Turn {
            cost,
            counts: Counts {
                faults: 10,
                ..Counts::default()
            },
            touch: Some(touch),
        }
    }

    fn exits(turns: &[Turn]) -> Vec<Toll> {
        let tolls = tolls(Demand::Exit, turns, 640.0);
        let costs: Vec<f64> = turns.iter().map(|turn| turn.cost).collect();
        assert!((Toll::sum(&tolls) - median(&costs).unwrap()).abs() < 1e-9);
        tolls
    }

    fn names(tolls: &[Toll]) -> Vec<&str> {
        tolls.iter().map(|toll| toll.name.as_str()).collect()
    }

    #[test]
    fn a_difference_that_every_turn_has_is_an_item_per_fault() {
        let tolls = exits(&[
            turn(1400.0, 1000.0),
            turn(1410.0, 1000.0),
            turn(1390.0, 1000.0),
        ]);
        let last = &tolls[1];
        assert_eq!(
            (last.name.as_str(), last.count_per_page),
            ("exit-and-enter", 1.0 / 64.0)
        );
        assert!((last.cost_each - 400.0 * 64.0).abs() < 1e-6);
    }

    #[test]
    fn a_difference_that_could_be_nothing_is_no_item() {
        let tolls = exits(&[
            turn(950.0, 1000.0),
            turn(1010.0, 1000.0),
            turn(980.0, 1000.0),
        ]);
        assert_eq!(names(&tolls), ["touch+exit-and-enter"]);
        assert_eq!(tolls[0].cost_each, 980.0);
    }

    #[test]
    fn drift_that_both_runs_of_a_turn_share_cancels() {
        let tolls = exits(&[
            turn(1100.0, 1000.0),
            turn(5101.0, 5000.0),
            turn(3099.0, 3000.0),
        ]);
        assert_eq!(names(&tolls), ["touch", "exit-and-enter"]);
        assert!((tolls[1].cost_per_page() - 99.0).abs() < 1e-9);
    }

    #[test]
    fn one_run_does_not_tell_a_fault_from_touching() {
        assert_eq!(
            names(&exits(&[turn(1900.0, 1000.0)])),
            ["touch+exit-and-enter"]
        );
    }

    #[test]
    fn items_are_those_of_the_runs_in_the_middle() {
        let of = |cost: f64, calls: u64, micros: u64| Turn {
            counts: Counts {
                faults: 10,
                calls,
                installing: Duration::from_micros(micros),
                ..Counts::default()
            },
            ..turn(cost, 100.0)
        };
        let tolls = exits(&[
            of(9e9, 10, 9_000_000),
            of(1000.0, 10, 64),
            of(2000.0, 10, 128),
            of(1.0, 1, 0),
        ]);
        let install = tolls.iter().find(|toll| toll.name == "install").unwrap();
        assert!(
            (install.cost_per_page() - 150.0).abs() < 1e-9,
            "{install:?}"
        );
    }

    #[test]
    fn without_a_run_of_populated_touching_is_in_the_last_item() {
        let alone = Turn {
            touch: None,
            ..turn(900.0, 0.0)
        };
        assert_eq!(names(&exits(&[alone, alone])), ["touch+exit-and-enter"]);
    }
}

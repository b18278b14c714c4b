//! The cost of a page item by item. Pure.
//!
//! Handlers time what they do. What is left after that and after touching, which is what `populated` costs with as many
//! vCPUs, is the difference of two wall times of different runs, each with its own noise; divided by the few faults of a
//! large batch, noise of 100 ns a page became thousands of nanoseconds of either sign. Runs of all mechanisms take turns,
//! so the difference is taken turn by turn, which cancels drift, and its spread is its error. A difference within its
//! error is not an item of its own: it stays together with touching, and a note gives its upper bound.

use std::time::Duration;

use pagetoll_bill::route::live::Demand;
use pagetoll_bill::{Spread, Toll};

use pagetoll_pager::Counts;

/// Standard errors by which a difference must exceed zero.
const SIGNIFICANT: f64 = 3.0;

/// One run of a line, in nanoseconds for each page of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) cost: f64,
    /// Part of it that handlers timed.
    pub(super) timed: f64,
    /// Cost of the run of `populated` in the same turn; `None` where that is not measured, or is this line.
    pub(super) touch: Option<f64>,
}

/// The items of a row; they sum to its cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Items {
    pub(super) tolls: Vec<Toll>,
    /// Item that could not be separated from touching, and its upper bound.
    pub(super) unresolved: Option<String>,
}

/// Itemises the runs of a line; `counts` are those of all of them, over `pages` pages.
pub(super) fn items(mechanism: Demand, turns: &[Turn], counts: &Counts, pages: f64) -> Items {
    let rests: Vec<f64> = turns
        .iter()
        .map(|turn| turn.cost - turn.timed - turn.touch.unwrap_or(0.0))
        .collect();
    let touches: Option<Vec<f64>> = turns.iter().map(|turn| turn.touch).collect();
    let Some(rest) = Spread::new(&rests) else {
        return Items::default();
    };
    let (name, count) = match (mechanism, counts.faults) {
        (Demand::Populated, _) => ("", 1.0),
        (Demand::Kernel, _) => ("fault", 1.0),
        (Demand::Uffd, faults) => ("deliver-and-wake", faults as f64 / pages),
        (Demand::Exit | Demand::ExitGmem, faults) => ("exit-and-enter", faults as f64 / pages),
    };
    let error = rest.stddev / (turns.len() as f64).sqrt();
    let is_resolved = rest.mean > SIGNIFICANT * error && count > 0.0;
    let touch = touches
        .as_deref()
        .and_then(Spread::new)
        .map(|touch| touch.mean);
    let timed = timed(counts, pages);
    match touch {
        Some(touch) if is_resolved => {
            let last = Toll::new(name, count, rest.mean / count);
            let tolls = [Toll::once("touch", touch)].into_iter().chain(timed);
            Items {
                tolls: tolls.chain([last]).collect(),
                unresolved: None,
            }
        }
        _ => {
            let joint = match mechanism {
                Demand::Populated => "touch".to_owned(),
                _ => format!("touch+{name}"),
            };
            let last = Toll::once(joint, rest.mean + touch.unwrap_or(0.0));
            let most = (rest.mean + SIGNIFICANT * error).max(0.0);
            let bound = match turns.len() {
                1 => "one run gives no upper bound".to_owned(),
                _ => format!("at most {most:.0} ns a page"),
            };
            Items {
                tolls: timed.chain([last]).collect(),
                unresolved: touch
                    .map(|_| format!("{name} is not resolved from the noise of touch: {bound}")),
            }
        }
    }
}

/// Items that handlers have timed; those that took no time are left out.
pub(super) fn timed(counts: &Counts, pages: f64) -> impl Iterator<Item = Toll> {
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

    fn turn(cost: f64, touch: f64) -> Turn {
        Turn {
            cost,
            timed: 0.0,
            touch: Some(touch),
        }
    }

    /// A fault for each 64 pages, as with a batch of 64.
    fn exits(turns: &[Turn]) -> Items {
        let pages = 640.0 * turns.len() as f64;
        let counts = Counts {
            faults: 10 * turns.len() as u64,
            ..Counts::default()
        };
        items(Demand::Exit, turns, &counts, pages)
    }

    #[test]
    fn a_difference_beyond_its_error_is_an_item_per_fault() {
        let items = exits(&[
            turn(1400.0, 1000.0),
            turn(1410.0, 1000.0),
            turn(1390.0, 1000.0),
        ]);
        assert_eq!(items.unresolved, None);
        let last = &items.tolls[1];
        assert_eq!(
            (last.name.as_str(), last.count_per_page),
            ("exit-and-enter", 1.0 / 64.0)
        );
        assert!((last.cost_each - 400.0 * 64.0).abs() < 1e-6);
    }

    #[test]
    fn a_difference_within_its_error_has_an_upper_bound_and_no_item() {
        // The mean is -20 and the standard error 10 * sqrt(3).
        let items = exits(&[
            turn(950.0, 1000.0),
            turn(1010.0, 1000.0),
            turn(980.0, 1000.0),
        ]);
        let names: Vec<_> = items.tolls.iter().map(|toll| toll.name.as_str()).collect();
        assert_eq!(names, ["touch+exit-and-enter"]);
        assert_eq!(items.tolls[0].cost_each, 980.0);
        let reason = items.unresolved.unwrap();
        assert!(reason.ends_with("at most 32 ns a page"), "{reason}");
    }

    #[test]
    fn drift_that_both_runs_of_a_turn_share_cancels() {
        let items = exits(&[
            turn(1100.0, 1000.0),
            turn(5101.0, 5000.0),
            turn(3099.0, 3000.0),
        ]);
        assert_eq!(items.unresolved, None);
        assert!((items.tolls[1].cost_per_page() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn one_run_that_is_less_than_touching_gives_no_bound() {
        let items = exits(&[turn(900.0, 1000.0)]);
        assert!(
            items
                .unresolved
                .unwrap()
                .ends_with("one run gives no upper bound")
        );
        assert_eq!(items.tolls.len(), 1);
    }

    #[test]
    fn without_a_run_of_populated_touching_is_in_the_last_item() {
        let alone = Turn {
            touch: None,
            ..turn(900.0, 0.0)
        };
        let items = exits(&[alone, alone]);
        assert_eq!(items.tolls[0].name, "touch+exit-and-enter");
        assert_eq!(items.unresolved, None);
    }
}

//! Costs, tolls and crossings of a row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Unavailable;
use super::crossing;
use super::discarded::Discarded;
use super::migrated::Migrated;
use super::restored::Restored;

/// A part of the cost of a page: how often it is paid, and how much each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Toll {
    /// Name of the item.
    pub name: String,
    /// Number of times for each page.
    pub count_per_page: f64,
    /// Cost of one time, in the bill's unit.
    pub cost_each: f64,
}

impl Toll {
    /// An item that a page pays `count_per_page` times.
    #[must_use]
    pub fn new(name: impl Into<String>, count_per_page: f64, cost_each: f64) -> Self {
        Self {
            name: name.into(),
            count_per_page,
            cost_each,
        }
    }

    /// An item that a page pays once.
    #[must_use]
    pub fn once(name: impl Into<String>, cost: f64) -> Self {
        Self::new(name, 1.0, cost)
    }

    /// Cost of this item for each page.
    #[must_use]
    pub fn cost_per_page(&self) -> f64 {
        self.count_per_page * self.cost_each
    }

    /// Cost of these items together for each page.
    #[must_use]
    pub fn sum(tolls: &[Self]) -> f64 {
        tolls.iter().map(Self::cost_per_page).sum()
    }
}

/// The median of some values; `None` of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
}

/// Bounds of the middle 90 % of the samples of a model; of runs, those between which 90 % of other bills of the same order have
/// their figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// 5 % are below this.
    pub low: f64,
    /// 5 % are above this.
    pub high: f64,
}

impl Interval {
    /// The middle 90 % of the samples, by nearest rank; `None` for fewer than two. Sorts the samples.
    #[must_use]
    pub fn of_middle(samples: &mut [f64]) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1).filter(|last| *last > 0)?;
        let beyond = samples.len() / 20;
        Some(Self {
            low: samples[beyond],
            high: samples[last - beyond],
        })
    }
}

/// Pages of all vCPUs together in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rate that the cost is; in bills of earlier versions the mean over the runs.
    pub pages_per_second: f64,
    /// Standard deviation over the runs, in bills of earlier versions alone.
    pub stddev: Option<f64>,
}

impl Rate {
    /// The rate of this many vCPUs, each of which populates a page in so many nanoseconds.
    #[must_use]
    pub fn of_cost(vcpus: u32, nanoseconds: f64) -> Self {
        Self {
            pages_per_second: f64::from(vcpus) * 1e9 / nanoseconds,
            stddev: None,
        }
    }
}

/// Entries into the hypervisor, or exits of the guest, for each page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crossings {
    /// Sum of the crossings that the mechanism asked for.
    pub per_page: f64,
    /// Counts by kind: `ptwr`, `page-fault`, `mmu_update`, ... Continuations are listed, but not part of `per_page`.
    pub by_kind: BTreeMap<String, f64>,
}

impl Crossings {
    /// The exceptions among them.
    #[must_use]
    pub fn traps(&self) -> f64 {
        self.sum(crossing::is_trap)
    }

    /// The hypercalls that the guest made.
    #[must_use]
    pub fn hypercalls(&self) -> f64 {
        self.per_page - self.traps()
    }

    fn sum(&self, wanted: fn(&str) -> bool) -> f64 {
        let kinds = self.by_kind.iter().filter(|(kind, _)| wanted(kind));
        kinds.map(|(_, count)| count).sum()
    }
}

/// Figures of a row. A cost is there by construction; everything else where it was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The cost of one page in the bill's unit, the median over the runs; in bills of earlier versions their mean.
    pub cost_per_page: f64,
    /// Standard deviation over the runs, in bills of earlier versions alone.
    pub stddev: Option<f64>,
    /// Interval of other bills of the same order, or of the middle 90 % of a model's samples; absent for a single one.
    pub interval: Option<Interval>,
    /// The cost of one page in each run, in the order of time.
    pub runs: Vec<f64>,
    /// Largest difference from the cost among slopes and guests that differ in nothing that matters, as a share of the cost;
    /// absent where it was not looked for.
    pub spread: Option<f64>,
    /// Pages in a second, on routes where several vCPUs run.
    pub rate: Option<Rate>,
    /// Entries into the hypervisor, where they were counted.
    pub crossings: Option<Crossings>,
    /// The cost, item by item; sums to `cost_per_page`.
    pub tolls: Vec<Toll>,
    /// Times of single guests and their memory, where guests were restored.
    pub restored: Option<Restored>,
    /// Memory that was given back, where memory was discarded.
    pub discarded: Option<Discarded>,
    /// A time of migrations, where guests were migrated.
    pub migrated: Option<Migrated>,
}

impl Figures {
    /// Spread above which a cost says nothing of a change.
    pub const UNSTEADY: f64 = 0.01;

    /// True where the cost spreads too far to be compared.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.spread.is_some_and(|spread| spread > Self::UNSTEADY)
    }

    /// The figures of runs, in the order of time, that cost so much a page.
    ///
    /// # Errors
    /// There were no runs: the reason given is what the row will say.
    pub fn of_runs(runs: Vec<f64>) -> Result<Self, Unavailable> {
        let cost = median(&runs).ok_or_else(|| Unavailable("nothing was reported".into()))?;
        Ok(Self {
            interval: Interval::of_another_bill(&runs),
            runs,
            ..Self::of_cost(cost)
        })
    }

    /// Widens the interval for bills at another load, where threads waited this share of their time.
    pub(crate) fn make_room_for(&mut self, waited: f64) {
        let interval = self.interval.iter_mut();
        interval.for_each(|own| *own = own.at_any_load(self.cost_per_page, waited));
    }

    /// Adds the rate that the cost, in nanoseconds of one of so many vCPUs, is.
    #[must_use]
    pub fn with_rate(self, vcpus: u32) -> Self {
        Self {
            rate: Some(Rate::of_cost(vcpus, self.cost_per_page)),
            ..self
        }
    }

    /// The figures of the samples of a model, by the tolls of each.
    ///
    /// The row shows the sample in the middle, so that its tolls are those of one machine and sum to its cost.
    ///
    /// # Errors
    /// There were no samples.
    pub fn of_samples(mut samples: Vec<Vec<Toll>>) -> Result<Self, Unavailable> {
        let none = || Unavailable("nothing was sampled".into());
        let last = samples.len().checked_sub(1).ok_or_else(none)?;
        samples.sort_by(|a, b| Toll::sum(a).total_cmp(&Toll::sum(b)));
        let mut costs: Vec<_> = samples.iter().map(|tolls| Toll::sum(tolls)).collect();
        let tolls = samples.swap_remove(last / 2);
        Ok(Self {
            interval: Interval::of_middle(&mut costs),
            ..Self::of_tolls(tolls)
        })
    }

    /// The figures of one itemised cost.
    #[must_use]
    pub fn of_tolls(tolls: Vec<Toll>) -> Self {
        Self {
            cost_per_page: Toll::sum(&tolls),
            tolls,
            ..Self::of_cost(0.0)
        }
    }

    pub(super) fn of_cost(cost_per_page: f64) -> Self {
        Self {
            cost_per_page,
            stddev: None,
            interval: None,
            runs: Vec::new(),
            spread: None,
            rate: None,
            crossings: None,
            tolls: Vec::new(),
            restored: None,
            discarded: None,
            migrated: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_in_the_middle_is_shown_with_its_own_tolls() {
        let tolls = |cost_each| vec![Toll::new("call", 2.0, cost_each)];
        let samples = vec![tolls(9.0), tolls(1.0), tolls(5.0), tolls(7.0)];
        let figures = Figures::of_samples(samples).unwrap();
        assert_eq!((figures.cost_per_page, figures.tolls), (10.0, tolls(5.0)));
        assert_eq!(figures.interval.map(|i| (i.low, i.high)), Some((2.0, 18.0)));
    }

    #[test]
    fn an_interval_leaves_a_twentieth_out_on_either_side() {
        let mut samples: Vec<f64> = (0..200).rev().map(f64::from).collect();
        let middle = Interval::of_middle(&mut samples).unwrap();
        assert_eq!((middle.low, middle.high), (10.0, 189.0));
        assert_eq!(Interval::of_middle(&mut [1.0]), None);
    }

    #[test]
    fn one_run_has_a_cost_but_no_interval_and_none_has_no_figures() {
        let of = |runs: &[f64]| Figures::of_runs(runs.to_vec());
        assert_eq!(of(&[1836.0]).unwrap().interval, None);
        assert_eq!(of(&[1836.0]).unwrap().cost_per_page, 1836.0);
        assert_eq!(of(&[9.0, 1.0, 2.0]).unwrap().cost_per_page, 2.0);
        assert!(of(&[]).is_err());
    }

    #[test]
    fn continuations_are_neither_traps_nor_hypercalls() {
        let kinds = [("ptwr", 1.0), ("mmu_update", 2.0), ("continuation", 0.5)];
        let crossings = Crossings {
            per_page: 3.0,
            by_kind: kinds.map(|(kind, count)| (kind.to_owned(), count)).into(),
        };
        assert_eq!((crossings.traps(), crossings.hypercalls()), (1.0, 2.0));
    }
}

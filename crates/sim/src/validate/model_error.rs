//! The error that the model has beside the spread of its cost table, as its own predictions show it.
//!
//! An interval of samples holds what the table does not know. How far results lie outside of it, on a logarithmic scale,
//! is the model's error. The interval of a figure is widened by the distance that nine of ten groups of other predictions
//! keep: those of its route where five groups or more have been published of it, else those of all. Figures that the table
//! was fitted to say nothing, and neither does a figure's own group: it is left out.

use std::collections::BTreeMap;

use pagetoll_bill::row::Interval;

use super::Comparison;

/// Groups of a route that are enough to judge it by.
const ENOUGH: usize = 5;

/// Share of the groups that are to lie inside.
const SHARE: f64 = 0.9;

/// Widens the intervals of `compared`.
pub(super) fn add(compared: &mut [Comparison], known: &[Comparison]) {
    let all: Vec<Distance> = known.iter().chain(&*compared).filter_map(Distance::of).collect();
    for one in compared {
        let (Some(error), Some(Interval { low, high })) = (error(one, &all), one.interval) else {
            continue;
        };
        one.interval_with_error = Some(Interval {
            low: low / error.exp(),
            high: high * error.exp(),
        });
    }
}

/// Distance of a published figure from the interval of the samples.
struct Distance {
    route: pagetoll_bill::Route,
    group: String,
    /// As the logarithm of the ratio to the nearer bound; 0 inside.
    distance: f64,
}

impl Distance {
    /// The distance of a prediction; `None` of a fitted figure, and of one without an interval.
    fn of(one: &Comparison) -> Option<Self> {
        let Interval { low, high } = one.interval.filter(|_| !one.fitted)?;
        let value = one.published.value;
        Some(Self {
            route: one.route,
            group: one.group().to_owned(),
            distance: (low / value).ln().max((value / high).ln()).max(0.0),
        })
    }
}

/// The distance that [`SHARE`] of the other groups keep; `None` where there is no other.
fn error(one: &Comparison, all: &[Distance]) -> Option<f64> {
    let others = || all.iter().filter(|other| other.group != one.group());
    let of_route = largest_by_group(others().filter(|other| other.route == one.route));
    let groups = if of_route.len() >= ENOUGH {
        of_route
    } else {
        largest_by_group(others())
    };
    let mut distances: Vec<f64> = groups.into_values().collect();
    distances.sort_by(f64::total_cmp);
    let last = distances.len().checked_sub(1)?;
    distances.get(rank(distances.len()).min(last)).copied()
}

/// The largest distance of each group.
fn largest_by_group<'a>(all: impl Iterator<Item = &'a Distance>) -> BTreeMap<&'a str, f64> {
    let mut groups = BTreeMap::new();
    for one in all {
        let largest: &mut f64 = groups.entry(one.group.as_str()).or_default();
        *largest = largest.max(one.distance);
    }
    groups
}

/// Index of the distance, from 0, below which another of as many lies with the probability [`SHARE`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a list has far fewer than 2^53 groups"
)]
fn rank(groups: usize) -> usize {
    ((groups + 1) as f64 * SHARE).ceil() as usize - 1
}

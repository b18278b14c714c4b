//! The error that the model has beside the spread of its cost table, as its own predictions show it.
//!
//! An interval of samples holds what the table does not know. How far results lie outside of it, on a logarithmic scale,
//! is the model's error. The interval of a figure is widened by the distance that nine of ten other predictions keep: those
//! of its route where five groups or more have been published of it, else those of all. A group, such as the rates of one
//! machine at many numbers of vCPUs, weighs as much as any other. Figures that the table was fitted to say nothing, and
//! neither does a figure's own group: it is left out.

use std::collections::BTreeMap;

use pagetoll_bill::row::Interval;
use pagetoll_cost::published::PublishedUnit;

use super::Comparison;

/// Groups of a route that are enough to judge it by.
const ENOUGH: usize = 5;

/// Share of the groups that are to lie inside.
const SHARE: f64 = 0.9;

/// Widens the intervals of `compared` by the distances of `known`.
pub(super) fn add(compared: &mut [Comparison], known: &[Comparison]) {
    let all: Vec<Distance> = known.iter().filter_map(Distance::of_prediction).collect();
    for one in compared {
        let (Some(error), Some(Interval { low, high })) = (error(one, &all), one.interval) else {
            continue;
        };
        let most = match one.published.unit {
            PublishedUnit::Share => 1.0,
            PublishedUnit::Ns | PublishedUnit::Ratio | PublishedUnit::PagesPerSecond => f64::MAX,
        };
        one.interval_with_error = Some(Interval {
            low: low / error.exp(),
            high: (high * error.exp()).min(most),
        });
    }
}

/// Distance of a published figure from the interval of the samples.
struct Distance {
    route: pagetoll_bill::Route,
    group: String,
    /// Logarithm of the ratio to the nearer bound; 0 inside.
    distance: f64,
}

impl Distance {
    /// The distance of a prediction; `None` of a fitted figure, and of one without an interval.
    fn of_prediction(one: &Comparison) -> Option<Self> {
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
    let of_route: Vec<_> = others().filter(|other| other.route == one.route).collect();
    if sizes(&of_route).len() >= ENOUGH {
        quantile(of_route)
    } else {
        quantile(others().collect())
    }
}

/// Number of predictions of each group.
fn sizes<'a>(all: &[&'a Distance]) -> BTreeMap<&'a str, f64> {
    let mut sizes = BTreeMap::new();
    for one in all {
        *sizes.entry(one.group.as_str()).or_default() += 1.0;
    }
    sizes
}

/// The smallest distance that [`SHARE`] of the groups do not exceed, each prediction as its part of a group.
#[expect(
    clippy::cast_precision_loss,
    reason = "a list has far fewer than 2^53 groups"
)]
fn quantile(mut all: Vec<&Distance>) -> Option<f64> {
    let sizes = sizes(&all);
    let wanted = SHARE * sizes.len() as f64;
    all.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    let mut within = 0.0;
    let reaches = |one: &&&Distance| {
        within += 1.0 / sizes[one.group.as_str()];
        within >= wanted
    };
    let found = all.iter().find(reaches).or_else(|| all.last());
    found.map(|one| one.distance)
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Route;

    use super::*;

    fn distances(groups: &[(&str, &[f64])]) -> Vec<Distance> {
        let of = |&(group, all): &(&str, &[f64])| {
            let group = group.to_owned();
            let distance = move |&distance: &f64| Distance {
                route: Route::Pin,
                group: group.clone(),
                distance,
            };
            all.iter().map(distance).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of).collect()
    }

    #[test]
    fn a_group_weighs_as_much_as_any_other() {
        let ten = [0.0; 10];
        let of = |groups: &[(&str, &[f64])]| quantile(distances(groups).iter().collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("a", &ten), ("b", &[1.0, 2.0])]), Some(2.0));
        let singles: Vec<(String, f64)> = (0..10).map(|n| (format!("{n}"), f64::from(n))).collect();
        let singles: Vec<_> = singles
            .iter()
            .map(|(name, at)| (name.as_str(), std::slice::from_ref(at)))
            .collect();
        assert_eq!(of(&singles), Some(8.0));
    }
}

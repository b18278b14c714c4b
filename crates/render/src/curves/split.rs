//! Charts with no more curves than eyes can tell apart.

use pagetoll_compare::curves::{Chart, Curve};

use super::labels::{Trait, differing, traits};
use crate::unique::unique;

/// The number of colours.
const MOST: usize = 8;

/// Some of a chart's curves.
pub(super) struct Part<'a> {
    pub(super) chart: &'a Chart,
    /// The trait that its curves share, where they are not all.
    pub(super) of: Option<String>,
    pub(super) curves: Vec<&'a Curve>,
}

/// The chart in parts: by the trait with the fewest values first, until each has few enough curves.
pub(super) fn parts(chart: &Chart) -> Vec<Part<'_>> {
    split(chart, None, chart.curves.iter().collect())
}

fn split<'a>(chart: &'a Chart, of: Option<String>, curves: Vec<&'a Curve>) -> Vec<Part<'a>> {
    if curves.len() <= MOST {
        return vec![Part { chart, of, curves }];
    }
    let some_stay = |name: &String| values(&curves, name).len() * 2 <= curves.len();
    let names = differing(&curves).into_iter().filter(some_stay);
    let Some(name) = names.min_by_key(|name| values(&curves, name).len()) else {
        return in_chunks(chart, of.as_deref(), &curves);
    };
    let parts = values(&curves, &name).into_iter().flat_map(|value| {
        let own: Vec<_> = curves
            .iter()
            .copied()
            .filter(|curve| value_of(curve, &name) == value)
            .collect();
        let said = value.map_or_else(
            || format!("no {name}"),
            |value| Trait::new(&name, value).said(),
        );
        let of = of
            .iter()
            .cloned()
            .chain([said])
            .collect::<Vec<_>>()
            .join(", ");
        split(chart, Some(of), own)
    });
    parts.collect()
}

fn values(curves: &[&Curve], name: &str) -> Vec<Option<String>> {
    unique(curves.iter().map(|curve| value_of(curve, name)))
}

fn value_of(curve: &Curve, name: &str) -> Option<String> {
    let mut traits = traits(curve).into_iter();
    traits.find(|one| one.name == name).map(|one| one.value)
}

/// The fewest parts possible, of about as many curves each.
fn in_chunks<'a>(chart: &'a Chart, of: Option<&str>, curves: &[&'a Curve]) -> Vec<Part<'a>> {
    let all = curves.len().div_ceil(MOST);
    let chunks = curves.chunks(curves.len().div_ceil(all));
    let part = |(index, chunk): (usize, &[&'a Curve])| {
        let number = format!("part {} of {all}", index + 1);
        Part {
            chart,
            of: Some(of.map_or_else(|| number.clone(), |of| format!("{of}, {number}"))),
            curves: chunk.to_vec(),
        }
    };
    chunks.enumerate().map(part).collect()
}

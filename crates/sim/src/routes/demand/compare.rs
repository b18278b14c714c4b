//! Modelled rates beside the published ones.

use pagetoll_bill::cost::published::{Published, PublishedUnit, error_of};
use pagetoll_bill::{Interval, PublishedRate, Row};

use super::usl::{Point, Scalability, median};
use super::{Request, rate};

/// Sets what was published beside each row that is the published scenario, and sums up how far the model is off.
/// Nothing where the table is of another machine: one that is not calibrated to any of the published rates.
pub(crate) fn with_published(rows: &mut [Row], request: &Request) -> Vec<String> {
    let rates = request.published.iter();
    let rates: Vec<&Published> = rates
        .filter(|figure| figure.unit == PublishedUnit::PagesPerSecond)
        .collect();
    if !rates
        .iter()
        .any(|figure| request.host.is_fitted_to(&figure.id))
    {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let mut mechanisms: Vec<String> = rows.iter().map(|row| row.mechanism.clone()).collect();
    mechanisms.dedup();
    for mechanism in mechanisms {
        let of = |n: u32| {
            let id = format!("demand.{mechanism}.{n}");
            rates.iter().copied().find(|figure| figure.id == id)
        };
        let mut all: Vec<Point> = Vec::new();
        let alike = |row: &&mut Row| row.mechanism == mechanism && is_published_scenario(row);
        for row in rows.iter_mut().filter(alike) {
            let Some((vcpus, figure)) = row.vcpus.and_then(|n| Some((n, of(n)?))) else {
                continue;
            };
            all.push((vcpus, figure.value));
            row.published = Some(PublishedRate {
                pages_per_second: figure.value,
                fitted: request.host.is_fitted_to(&figure.id),
                scalability: None,
            });
        }
        set_scalability(rows, &mechanism, &all);
        notes.extend(summary(rows, &mechanism));
    }
    notes
}

/// A page at a time, and a reader for each vCPU where there are readers.
fn is_published_scenario(row: &Row) -> bool {
    row.batch == 1 && row.readers.is_none_or(|readers| Some(readers) == row.vcpus)
}

fn compared<'a>(
    rows: &'a [Row],
    mechanism: &'a str,
) -> impl Iterator<Item = (&'a Row, PublishedRate)> {
    let alike = move |row: &&Row| row.mechanism == mechanism;
    rows.iter()
        .filter(alike)
        .filter_map(|row| Some((row, row.published?)))
}

/// Lays the universal scalability law through the calibration points, if there are two.
fn set_scalability(rows: &mut [Row], mechanism: &str, all: &[Point]) {
    let fitted = compared(rows, mechanism).filter(|(_, published)| published.fitted);
    let points: Vec<Point> = fitted
        .filter_map(|(row, published)| Some((row.vcpus?, published.pages_per_second)))
        .collect();
    let [first, second] = points.as_slice() else {
        return;
    };
    let Some(curve) = Scalability::through(*first, *second, all) else {
        return;
    };
    for row in rows.iter_mut().filter(|row| row.mechanism == mechanism) {
        if let (Some(vcpus), Some(published)) = (row.vcpus, &mut row.published) {
            published.scalability = Some(curve.rate(vcpus));
        }
    }
}

/// Whether a published rate is where 90 % of the samples lie, which are costs.
fn is_inside(row: &Row, published: PublishedRate) -> bool {
    let within = |Interval { low, high }: Interval| {
        let vcpus = row.vcpus.unwrap_or(1);
        (rate(vcpus, high)..=rate(vcpus, low)).contains(&published.pages_per_second)
    };
    row.interval.is_some_and(within)
}

/// Median and worst error of what is no calibration point, and how many lie inside their intervals.
fn summary(rows: &[Row], mechanism: &str) -> Option<String> {
    let left_out = || compared(rows, mechanism).filter(|(_, published)| !published.fitted);
    let errors: Vec<f64> = left_out()
        .filter_map(|(row, published)| {
            Some(error_of(row.pages_per_second?, published.pages_per_second))
        })
        .collect();
    let inside = left_out().filter(|(row, published)| is_inside(row, *published));
    let (of, inside) = (errors.len(), inside.count());
    let mut text = format!(
        "{mechanism} against what was published, calibration points left out: {}; {inside} of {of} inside their \
         intervals",
        median_and_worst(errors)?
    );
    let by_law = left_out().filter_map(|(_, published)| {
        Some(error_of(published.scalability?, published.pages_per_second))
    });
    if let Some(errors) = median_and_worst(by_law.collect()) {
        text += &format!(
            "; the universal scalability law through the same points, chosen knowing all: {errors}"
        );
    }
    Some(text)
}

fn median_and_worst(errors: Vec<f64>) -> Option<String> {
    let worst = errors.iter().copied().max_by(f64::total_cmp)?;
    let median = median(errors)?;
    Some(format!(
        "median error {:.0} %, worst {:.0} %",
        100.0 * median,
        100.0 * worst
    ))
}

//! Modelled rates beside the published ones.

use std::fmt;

use pagetoll_bill::cost::CostKey;
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
        .any(|figure| request.costs.is_fitted_to(&figure.id))
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
                fitted: request.costs.is_fitted_to(&figure.id)
                    || is_calibration_point(request, &mechanism, vcpus),
                scalability: None,
            });
        }
        set_scalability(rows, &mechanism, &all);
        notes.extend(summary(rows, &mechanism).map(|all| all.to_string()));
    }
    notes
}

/// Whether the table says what this row costs: then a factor was chosen to meet it, whatever it was fitted to.
fn is_calibration_point(request: &Request, mechanism: &str, vcpus: u32) -> bool {
    let key = CostKey::named(&format!("demand.page.{mechanism}.{vcpus}"));
    key.is_some_and(|key| request.costs.figure(key).is_ok())
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

/// How far the model is off the published rates of one mechanism, calibration points left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The mechanism.
    pub mechanism: String,
    /// The model's errors.
    pub errors: Errors,
    /// How many published rates are compared.
    pub compared: usize,
    /// How many of them lie inside the interval of 90 % of the samples.
    pub inside: usize,
    /// The errors of the universal scalability law; absent where there are not two calibration points.
    pub by_law: Option<Errors>,
}

/// Errors as [`error_of`] defines them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub worst: f64,
}

impl Errors {
    fn of(errors: Vec<f64>) -> Option<Self> {
        let worst = errors.iter().copied().max_by(f64::total_cmp)?;
        let median = median(errors)?;
        Some(Self { median, worst })
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, worst) = (100.0 * self.median, 100.0 * self.worst);
        write!(f, "median error {median:.0} %, worst {worst:.0} %")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} against what was published, calibration points left out: {}; {} of {} inside their intervals",
            self.mechanism, self.errors, self.inside, self.compared
        )?;
        match self.by_law {
            Some(errors) => write!(
                f,
                "; the universal scalability law through the same points, chosen knowing all: {errors}"
            ),
            None => Ok(()),
        }
    }
}

/// The summary of a mechanism's rows; `None` where no row but calibration points was published.
#[must_use]
pub fn summary(rows: &[Row], mechanism: &str) -> Option<Summary> {
    let left_out = || compared(rows, mechanism).filter(|(_, published)| !published.fitted);
    let errors = left_out().filter_map(|(row, published)| {
        Some(error_of(row.pages_per_second?, published.pages_per_second))
    });
    let by_law = left_out().filter_map(|(_, published)| {
        Some(error_of(published.scalability?, published.pages_per_second))
    });
    let inside = left_out().filter(|(row, published)| is_inside(row, *published));
    Some(Summary {
        mechanism: mechanism.to_owned(),
        errors: Errors::of(errors.collect())?,
        compared: left_out().count(),
        inside: inside.count(),
        by_law: Errors::of(by_law.collect()),
    })
}

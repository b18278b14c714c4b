//! Modelled rates beside the published ones.

use std::fmt;

use pagetoll_bill::route::Demand;
use pagetoll_bill::row::{Interval, PublishedRate, Rate, error_of, median};
use pagetoll_bill::{RouteMechanism, Row};
use pagetoll_cost::CostKey;
use pagetoll_cost::CostTable;
use pagetoll_cost::published::{PublishedFigure, PublishedUnit};

use super::usl::{Point, Scalability};

/// Sets what was published beside each row that is the published scenario, and sums up how far the model is off.
/// Nothing where the table is of another machine: one that is not calibrated to any of the published rates.
pub(crate) fn with_published(rows: &mut [Row], costs: &CostTable) -> Vec<String> {
    let is_rate = |figure: &&PublishedFigure| figure.unit == PublishedUnit::PagesPerSecond;
    let mut rates = PublishedFigure::built_in().iter().filter(is_rate);
    if !rates.any(|figure| costs.is_fitted_to(&figure.id)) {
        return Vec::new();
    }
    let compared = Demand::ALL.iter().filter_map(|&mechanism| {
        let points = set_published(rows, mechanism, costs);
        set_scalability(rows, mechanism, &points);
        summary(rows, mechanism)
    });
    compared.map(|all| all.to_string()).collect()
}

/// Sets the published rates of one mechanism, and gives them by vCPUs.
fn set_published(rows: &mut [Row], mechanism: Demand, costs: &CostTable) -> Vec<Point> {
    let name = mechanism.properties().name;
    let mut points = Vec::new();
    // Published were: a page at a time, and a reader for each vCPU where there are readers.
    let alike = |row: &&mut Row| {
        let readers = row.key.readers;
        is_of(row, mechanism)
            && row.key.batch == 1
            && readers.is_none_or(|readers| Some(readers) == row.key.vcpus)
    };
    for row in rows.iter_mut().filter(alike) {
        let published = row.key.vcpus.and_then(|vcpus| {
            let id = format!("demand.{name}.{vcpus}");
            let mut all = PublishedFigure::built_in().iter();
            Some((vcpus, all.find(|figure| figure.id == id)?))
        });
        let Some((vcpus, figure)) = published else {
            continue;
        };
        points.push((vcpus, figure.value));
        row.published = Some(PublishedRate {
            pages_per_second: figure.value,
            fitted: costs.is_fitted_to(&figure.id) || is_calibration_point(costs, name, vcpus),
            scalability: None,
        });
    }
    points
}

/// Returns whether the table states the cost of this row: then a factor was chosen to meet it, whatever it was fitted
/// to.
fn is_calibration_point(costs: &CostTable, mechanism: &str, vcpus: u32) -> bool {
    let key = CostKey::named(&format!("demand.page.{mechanism}.{vcpus}"));
    key.is_some_and(|key| costs.figure(key).is_ok())
}

fn is_of(row: &Row, mechanism: Demand) -> bool {
    row.key.method == mechanism.into()
}

fn compared(rows: &[Row], mechanism: Demand) -> impl Iterator<Item = (&Row, PublishedRate)> {
    rows.iter()
        .filter(move |row| is_of(row, mechanism))
        .filter_map(|row| Some((row, row.published?)))
}

/// Lays the universal scalability law through the calibration points, if there are two.
fn set_scalability(rows: &mut [Row], mechanism: Demand, all: &[Point]) {
    let fitted = compared(rows, mechanism).filter(|(_, published)| published.fitted);
    let points: Vec<Point> = fitted
        .filter_map(|(row, published)| Some((row.key.vcpus?, published.pages_per_second)))
        .collect();
    let [first, second] = points.as_slice() else {
        return;
    };
    let Some(curve) = Scalability::through(*first, *second, all) else {
        return;
    };
    for row in rows.iter_mut().filter(|row| is_of(row, mechanism)) {
        if let (Some(vcpus), Some(published)) = (row.key.vcpus, &mut row.published) {
            published.scalability = Some(curve.rate(vcpus));
        }
    }
}

/// Returns whether a published rate is inside the middle 90 % of the samples, which are costs.
fn is_inside(row: &Row, published: PublishedRate) -> bool {
    let within = |Interval { low, high }: Interval| {
        let rate = |cost| Rate::of_cost(row.key.vcpus.unwrap_or(1), cost).pages_per_second;
        (rate(high)..=rate(low)).contains(&published.pages_per_second)
    };
    row.figures()
        .and_then(|figures| figures.interval)
        .is_some_and(within)
}

/// Distance of the model from the published rates of one mechanism, calibration points left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The mechanism.
    pub mechanism: Demand,
    /// The model's errors.
    pub errors: Errors,
    /// Number of published rates that are compared.
    pub compared: usize,
    /// Number of them inside the interval of 90 % of the samples.
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
    fn new(errors: Vec<f64>) -> Option<Self> {
        let worst = errors.iter().copied().max_by(f64::total_cmp)?;
        let median = median(&errors)?;
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
            self.mechanism.properties().name,
            self.errors,
            self.inside,
            self.compared
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
pub fn summary(rows: &[Row], mechanism: Demand) -> Option<Summary> {
    let left_out = || compared(rows, mechanism).filter(|(_, published)| !published.fitted);
    let errors = left_out().filter_map(|(row, published)| {
        let rate = row.figures()?.rate?;
        Some(error_of(rate.pages_per_second, published.pages_per_second))
    });
    let by_law = left_out().filter_map(|(_, published)| {
        Some(error_of(published.scalability?, published.pages_per_second))
    });
    let inside = left_out().filter(|(row, published)| is_inside(row, *published));
    Some(Summary {
        mechanism,
        errors: Errors::new(errors.collect())?,
        compared: left_out().count(),
        inside: inside.count(),
        by_law: Errors::new(by_law.collect()),
    })
}

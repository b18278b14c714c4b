//! Several bills as curves: what a row cost over kernels, over vCPUs or over time, and where its cost stepped.
//!
//! The axis is found from what differs between the bills. Rows that are the same but for their place on the axis are
//! one curve. Bills of different machines, memory sizes or numbers of pages are never one curve. A step is what [`diff`]
//! would call a regression or an improvement between two neighbours.
//!
//! [`diff`]: crate::diff

mod axis;
mod line;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use pagetoll_bill::{Backend, Bill, Evidence, Operation, Route, RowKey, Unit, names};
use serde::Serialize;
use thiserror::Error;

use crate::diff::Change;

pub use axis::Axis;
pub use place::Place;

use line::{Line, Sample};

/// The version of the JSON form.
const SCHEMA: &str = "pagetoll.curves/1";

/// A bill and its name in messages.
#[derive(Clone, Debug)]
pub struct NamedBill {
    /// File name.
    pub name: String,
    /// The bill.
    pub bill: Bill,
}

names! {
    /// Quantity of a chart.
    pub enum Quantity as "quantity" {
        /// The cost of a page, in the chart's unit.
        Cost,
        /// Pages of all vCPUs together in a second.
        Rate,
    }
}

/// Several bills as curves over one axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// The version of this form.
    pub schema: &'static str,
    /// Difference between the bills.
    pub axis: Axis,
    /// Number of bills.
    pub bills: usize,
    /// Difference below which exact counts are equal, as a share.
    pub tolerance: f64,
    /// Charts, each of curves that fit one frame.
    pub charts: Vec<Chart>,
}

/// Curves of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// Route of all its bills.
    pub route: Route,
    /// Backend of all its bills.
    pub backend: Backend,
    /// Operation on the pages.
    pub operation: Operation,
    /// Quantity of its points.
    pub quantity: Quantity,
    /// Unit of costs.
    pub unit: Unit,
    /// Evidence of the figures.
    pub evidence: Evidence,
    /// Curves by key.
    pub curves: Vec<Curve>,
}

/// The rows of one key over the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Key of its rows, without the field that the axis replaces.
    #[serde(flatten)]
    pub key: RowKey,
    /// Other properties that its bills share: the parts of the stack that the axis leaves out, and `pages`.
    pub setting: BTreeMap<String, String>,
    /// Points in the order of the axis; no two at one place.
    pub points: Vec<Point>,
}

/// A row at its place on the axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Place on the axis.
    pub at: Place,
    /// File of its bill.
    pub bill: String,
    /// Cost of a page, or pages in a second.
    pub value: f64,
    /// Interval of 90 % of a model's samples, or the mean less and plus a deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// Published result in the same setting, in pages a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Change from the point before, if it exceeds the tolerance and the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Change>,
    /// True if the memory lay differently at the point before: a change says nothing about the axis.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_memory: bool,
}

/// Interval of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Bills that make no curves.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CurvesError {
    /// No axis on which they differ.
    #[error("the bills do not differ in any of {}", names_of(Axis::ALL))]
    NothingDiffers,
    /// No row has a place on the axis.
    #[error("--over {0}: no row of the bills has a figure and a {0}")]
    NoPlace(Axis),
    /// Two rows would be one point.
    #[error(
        "{first} and {second} have both a figure of {key} at {axis} {place}; expected one, or --over another of {}",
        names_of(Axis::ALL)
    )]
    Coincide {
        /// The axis.
        axis: Axis,
        /// The place on it.
        place: String,
        /// Key of both rows.
        key: String,
        /// File of the first bill.
        first: String,
        /// File of the second bill; equal to the first if one bill has both rows.
        second: String,
    },
}

fn names_of(axes: &[Axis]) -> String {
    let names: Vec<_> = axes.iter().map(|axis| axis.name()).collect();
    names.join(", ")
}

impl Curves {
    /// Draws curves of these bills over `axis`, or over the first axis on which they differ; `tolerance` is a share,
    /// such as 0.005.
    ///
    /// # Errors
    /// Bills without a difference, or rows that coincide on the axis.
    pub fn new(
        bills: &[NamedBill],
        axis: Option<Axis>,
        tolerance: f64,
    ) -> Result<Self, CurvesError> {
        let axis = axis.map_or_else(|| first_axis(bills), Ok)?;
        let lines = lines(bills, axis)?;
        if lines.is_empty() {
            return Err(CurvesError::NoPlace(axis));
        }
        let mut charts: BTreeMap<Head, Vec<Curve>> = BTreeMap::new();
        for (line, samples) in lines {
            let head = Head::new(&line, &samples);
            let curve = line.curve(
                &samples,
                head.quantity,
                axis.is_ordered_by_change().then_some(tolerance),
            );
            charts.entry(head).or_default().push(curve);
        }
        Ok(Self {
            schema: SCHEMA,
            axis,
            bills: bills.len(),
            tolerance,
            charts: charts
                .into_iter()
                .map(|(head, curves)| head.chart(curves))
                .collect(),
        })
    }

    /// All steps, with the curve and the point that follows.
    pub fn steps(&self) -> impl Iterator<Item = CurveStep<'_>> {
        self.charts.iter().flat_map(|chart| {
            chart.curves.iter().flat_map(move |curve| {
                curve.points.windows(2).filter_map(move |pair| {
                    let change = pair[1].step.as_ref()?;
                    Some(CurveStep {
                        chart,
                        curve,
                        from: &pair[0].at,
                        to: &pair[1].at,
                        change,
                    })
                })
            })
        })
    }
}

/// A step of a curve.
#[derive(Clone, Copy, Debug)]
pub struct CurveStep<'a> {
    /// The chart of the curve.
    pub chart: &'a Chart,
    /// The curve.
    pub curve: &'a Curve,
    /// The last place before it.
    pub from: &'a Place,
    /// The first place after it.
    pub to: &'a Place,
    /// The change.
    pub change: &'a Change,
}

/// Properties that the curves of a chart share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    route: Route,
    backend: Backend,
    operation: Operation,
    quantity: Quantity,
    unit: Unit,
    evidence: Evidence,
}

impl Head {
    /// Head of the chart for a line: of rates if every sample has one.
    fn new(line: &Line, samples: &[Sample<'_>]) -> Self {
        let all_rated = samples.iter().all(Sample::has_rate);
        Self {
            route: line.route,
            backend: line.backend,
            operation: line.key.operation,
            quantity: if all_rated {
                Quantity::Rate
            } else {
                Quantity::Cost
            },
            unit: line.unit,
            evidence: line.evidence,
        }
    }

    fn chart(self, curves: Vec<Curve>) -> Chart {
        Chart {
            route: self.route,
            backend: self.backend,
            operation: self.operation,
            quantity: self.quantity,
            unit: self.unit,
            evidence: self.evidence,
            curves,
        }
    }
}

/// The first axis in which the bills differ, in which each has a place, and on which no two rows coincide.
fn first_axis(bills: &[NamedBill]) -> Result<Axis, CurvesError> {
    let mut refused = CurvesError::NothingDiffers;
    for &axis in Axis::ALL.iter().filter(|axis| differs(bills, **axis)) {
        match lines(bills, axis) {
            Ok(_) => return Ok(axis),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn differs(bills: &[NamedBill], axis: Axis) -> bool {
    let places = |named: &NamedBill| -> BTreeSet<String> {
        let rows = named.bill.rows.iter().filter(|row| row.cost().is_some());
        rows.filter_map(|row| axis.place(&named.bill, row))
            .map(|place| place.name)
            .collect()
    };
    let mut sets = bills.iter().map(places);
    let Some(first) = sets.next().filter(|first| !first.is_empty()) else {
        return false;
    };
    let mut differ = false;
    for set in sets {
        if set.is_empty() {
            return false;
        }
        differ |= set != first;
    }
    differ
}

/// The rows with a cost, by the curve that they are on and in the order of the axis.
fn lines(bills: &[NamedBill], axis: Axis) -> Result<BTreeMap<Line, Vec<Sample<'_>>>, CurvesError> {
    let mut lines: BTreeMap<Line, Vec<Sample<'_>>> = BTreeMap::new();
    for named in bills {
        for (line, sample) in line::samples(named, axis) {
            lines.entry(line).or_default().push(sample);
        }
    }
    for (line, samples) in &mut lines {
        samples.sort_by(|a, b| a.at.cmp_on(&b.at));
        samples.dedup_by(|second, first| second.repeats(first));
        if let Some([first, second]) = samples
            .windows(2)
            .find(|pair| pair[0].at.name == pair[1].at.name)
        {
            return Err(CurvesError::Coincide {
                axis,
                place: first.at.name.clone(),
                key: line.key.to_string(),
                first: first.bill.to_owned(),
                second: second.bill.to_owned(),
            });
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;

//! Rows of bills that form one curve, and its points.

use std::collections::BTreeMap;

use pagetoll_bill::row::Interval;
use pagetoll_bill::{Backend, Evidence, Figures, Role, Route, Row, RowKey, Unit};

use super::{Axis, Band, Curve, NamedBill, Place, Point, Quantity};
use crate::diff::{Change, Hosts, Rule, lie_alike};

/// Key of a curve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) route: Route,
    pub(super) backend: Backend,
    pub(super) unit: Unit,
    pub(super) evidence: Evidence,
    pub(super) key: RowKey,
    setting: BTreeMap<String, String>,
}

/// A row with a cost.
#[derive(Clone, Debug)]
pub(super) struct Sample<'a> {
    pub(super) at: Place,
    pub(super) bill: &'a str,
    row: &'a Row,
    figures: &'a Figures,
    hosts: Hosts,
}

impl Sample<'_> {
    pub(super) fn has_rate(&self) -> bool {
        self.figures.rate.is_some()
    }

    /// True for the same row to the last digit: rows that an option does not affect are in every bill of its order.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        self.at == other.at && self.row == other.row
    }
}

/// Rows of a bill with a cost and a place on the axis; baselines have no curve.
pub(super) fn samples(named: &NamedBill, axis: Axis) -> impl Iterator<Item = (Line, Sample<'_>)> {
    let bill = &named.bill;
    let setting = axis.setting(bill);
    let rows = bill.rows.iter().filter(|row| row.role() != Role::Baseline);
    rows.filter_map(move |row| {
        let line = Line {
            route: bill.route,
            backend: bill.backend,
            unit: bill.unit,
            evidence: bill.evidence,
            key: axis.without(bill, &row.key),
            setting: setting.clone(),
        };
        let sample = Sample {
            at: axis.place(bill, row)?,
            bill: &named.name,
            row,
            figures: row.figures()?,
            hosts: Hosts::new([bill, bill]),
        };
        Some((line, sample))
    })
}

impl Line {
    /// Curve of its samples; with steps if a tolerance is given.
    pub(super) fn curve(
        self,
        samples: &[Sample<'_>],
        quantity: Quantity,
        tolerance: Option<f64>,
    ) -> Curve {
        let mut points = Vec::new();
        let mut before: Option<&Sample<'_>> = None;
        for sample in samples {
            let step = before.zip(tolerance).and_then(|(before, tolerance)| {
                let rule = Rule {
                    evidence: self.evidence,
                    tolerance,
                    hosts: before.hosts.or(sample.hosts),
                };
                Change::step(&self.key, before.row, sample.row, rule)
            });
            let other_memory = before.is_some_and(|before| !lie_alike(before.row, sample.row));
            points.push(Point {
                step,
                other_memory,
                ..sample.point(quantity)
            });
            before = Some(sample);
        }
        Curve {
            key: self.key,
            setting: self.setting,
            points,
        }
    }
}

impl Sample<'_> {
    fn point(&self, quantity: Quantity) -> Point {
        let (value, band) = match (quantity, self.figures.rate) {
            (Quantity::Rate, Some(rate)) => {
                let spread = rate
                    .stddev
                    .map(|stddev| around(rate.pages_per_second, stddev));
                (
                    rate.pages_per_second,
                    spread.or_else(|| self.row.interval_of_rates().map(band)),
                )
            }
            _ => (self.figures.cost_per_page, self.band_of_costs()),
        };
        Point {
            at: self.at.clone(),
            bill: self.bill.to_owned(),
            value,
            band,
            published: self
                .row
                .published
                .map(|published| published.pages_per_second),
            step: None,
            other_memory: false,
        }
    }

    fn band_of_costs(&self) -> Option<Band> {
        let Figures {
            cost_per_page,
            stddev,
            interval,
            ..
        } = self.figures;
        let spread = stddev.map(|stddev| around(*cost_per_page, stddev));
        spread.or_else(|| interval.map(band))
    }
}

const fn band(interval: Interval) -> Band {
    Band {
        low: interval.low,
        high: interval.high,
    }
}

fn around(mean: f64, deviation: f64) -> Band {
    Band {
        low: mean - deviation,
        high: mean + deviation,
    }
}

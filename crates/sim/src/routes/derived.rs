//! Figures derived from rows, for the calibrations of several routes.

use pagetoll_bill::row::Baseline;
use pagetoll_bill::{Bill, Mechanism, Method, Operation, Row, System};
pub(crate) use pagetoll_cost::Derived;
use pagetoll_cost::{CostKey, Kind};
use pagetoll_models::xen::Width;

use super::counted::cell::width;

/// Largest difference between two counted bills of one order whose guest programs were built apart: 0.1 %.
const SPREAD: f64 = 0.001;
/// Spread of a figure that is taken to be like a measured one: 10 % either way.
const ASSUMED_SPREAD: f64 = 0.1;

/// The rows of a bill that one system gave.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) bill: &'a Bill,
    pub(crate) system: System,
}

/// Figures of a cost table from rows; `None` where a row is missing.
pub(crate) type Figures = fn(Rows<'_>) -> Option<Vec<Derived>>;

impl Rows<'_> {
    /// Figures of a 64-bit guest, or of a 32-bit one where the rows are its.
    pub(crate) fn by_width(self, bits_64: Figures, pae: Figures) -> Option<Vec<Derived>> {
        match width(self.system) {
            Width::Bits64 => bits_64(self),
            Width::Pae32 => pae(self),
        }
    }
}

/// System whose rows give the figures of 32-bit guests: they may have run on a Xen of their own.
pub(crate) fn source_32_bit(bill: Rows<'_>) -> String {
    let xen = bill.bill.stack.get("xen-pv32").map_or("?", String::as_str);
    format!("xen-pv32-dom0 (Xen {xen} with CONFIG_PV32),")
}

pub(crate) fn measured(key: CostKey, value: f64, source: &str) -> Derived {
    derived(key, Kind::Measured, value, SPREAD, source)
}

pub(crate) fn assumed(key: CostKey, value: f64, source: &str) -> Derived {
    derived(key, Kind::Assumed, value, ASSUMED_SPREAD, source)
}

fn derived(key: CostKey, kind: Kind, value: f64, spread: f64, source: &str) -> Derived {
    Derived {
        key,
        value,
        low: value * (1.0 - spread),
        high: value * (1.0 + spread),
        kind,
        source: source.to_owned(),
    }
}

pub(crate) fn value(figures: &[Derived], key: CostKey) -> Option<f64> {
    let found = figures.iter().find(|figure| figure.key == key);
    found.map(|figure| figure.value)
}

/// The cost of a part that is billed by itself.
pub(crate) fn part(bill: Rows<'_>, baseline: Baseline) -> Option<f64> {
    only(bill, Method::Baseline(baseline))
}

/// The cost of a method that is billed at one batch.
pub(crate) fn only(bill: Rows<'_>, method: impl Into<Method>) -> Option<f64> {
    rows(bill, method.into()).find_map(Row::cost)
}

pub(crate) fn rows(of: Rows<'_>, method: Method) -> impl Iterator<Item = &Row> {
    let is_wanted = move |row: &&Row| row.key.system == of.system && row.key.method == method;
    of.bill.rows.iter().filter(is_wanted)
}

/// The cost of an operation by a mechanism that is billed at one batch.
pub(crate) fn cost(
    bill: Rows<'_>,
    operation: Operation,
    mechanism: impl Into<Mechanism>,
) -> Option<f64> {
    let method = Method::Mechanism(mechanism.into());
    let mut rows = rows(bill, method).filter(|row| row.key.operation == operation);
    rows.find_map(Row::cost)
}

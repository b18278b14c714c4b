//! The columns that are named by what occurs in a bill.

use pagetoll_bill::{Bill, Check, Row, Toll};
use serde::Serialize;

use crate::unique::unique;

const TOLL_COLUMNS: [&str; 2] = ["count_per_page", "cost_each"];
const CHECK_COLUMNS: [&str; 4] = ["tried", "failed", "control_failed", "verdict"];

/// The content of such a column.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Number(f64),
    Count(u64),
    Empty,
}

impl<'a> Cell<'a> {
    fn of<T>(value: Option<T>, cell: fn(T) -> Cell<'a>) -> Self {
        value.map_or(Self::Empty, cell)
    }
}

/// The names that occur in any row, in the order of its first occurrence.
pub(super) struct Names<'a> {
    stack: Vec<&'a str>,
    folios: Vec<&'a str>,
    crossings: Vec<&'a str>,
    tolls: Vec<&'a str>,
    checks: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(bill: &'a Bill) -> Self {
        let rows = || bill.rows.iter();
        let kinds = rows().filter_map(Row::crossings);
        let kinds = kinds.flat_map(|crossings| crossings.by_kind.keys());
        Self {
            stack: bill.stack.keys().map(String::as_str).collect(),
            folios: unique(rows().flat_map(|row| row.folios.keys()).map(String::as_str)),
            crossings: unique(kinds.map(String::as_str)),
            tolls: unique(rows().flat_map(Row::tolls).map(|toll| toll.name.as_str())),
            checks: unique(
                rows()
                    .flat_map(|row| &row.checks)
                    .map(|check| check.name.as_str()),
            ),
        }
    }

    pub(super) fn header(&self) -> Vec<String> {
        let mut header = of_each("stack", &self.stack);
        header.extend(of_each("folios", &self.folios));
        header.extend(of_each("crossings", &self.crossings));
        for name in of_each("tolls", &self.tolls) {
            header.extend(of_each(&name, &TOLL_COLUMNS));
        }
        for name in of_each("checks", &self.checks) {
            header.extend(of_each(&name, &CHECK_COLUMNS));
        }
        header
    }

    pub(super) fn cells<'b>(&self, bill: &'b Bill, row: &'b Row) -> Vec<Cell<'b>> {
        let stack = bill.stack.values().map(|version| Cell::Text(version));
        let folio = |size: &&str| Cell::of(row.folios.get(*size).copied(), Cell::Count);
        let crossing = |kind: &&str| {
            let counted = row.crossings().and_then(|all| all.by_kind.get(*kind));
            Cell::of(counted.copied(), Cell::Number)
        };
        let mut cells: Vec<_> = stack.collect();
        cells.extend(self.folios.iter().map(folio));
        cells.extend(self.crossings.iter().map(crossing));
        for name in &self.tolls {
            let mut tolls = row.tolls().iter();
            cells.extend(toll_cells(tolls.find(|toll| toll.name == *name)));
        }
        for name in &self.checks {
            let mut checks = row.checks.iter();
            cells.extend(check_cells(checks.find(|check| check.name == *name)));
        }
        cells
    }
}

fn of_each(what: &str, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{what}.{name}")).collect()
}

fn toll_cells(toll: Option<&Toll>) -> [Cell<'_>; TOLL_COLUMNS.len()] {
    let number = |value: fn(&Toll) -> f64| Cell::of(toll.map(value), Cell::Number);
    [
        number(|toll| toll.count_per_page),
        number(|toll| toll.cost_each),
    ]
}

fn check_cells(check: Option<&Check>) -> [Cell<'_>; CHECK_COLUMNS.len()] {
    let count = |value: Option<u64>| Cell::of(value, Cell::Count);
    [
        count(check.map(|check| check.tried)),
        count(check.map(|check| check.failed)),
        count(check.and_then(|check| check.control_failed)),
        Cell::of(check.map(|check| check.verdict.name()), Cell::Text),
    ]
}

//! Shares of rows with many tolls: cache lines, locks, queues, and the largest by name.

use pagetoll_bill::row::{TollKind, TollName};
use pagetoll_bill::{Row, Toll};

use crate::bill::axes;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Number of a row's tolls that are named.
const NAMED: usize = 4;

/// Kinds of contention, with the titles of their columns.
const KINDS: [(TollKind, &str); 3] = [
    (TollKind::Line, "lines"),
    (TollKind::Lock, "locks"),
    (TollKind::Queue, "queues"),
];

pub(super) fn table(rows: &[&Row]) -> Table {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    let sum = |row: &&Row| figure::cost(Toll::sum(row.tolls()));
    table.each(rows, Column::right("sum").rank(2), sum);
    for (kind, title) in KINDS {
        table.each(rows, Column::right(title).rank(1), |row| share(row, kind));
    }
    table.each(rows, Column::left("the largest").wrapping(), |row| {
        largest(row)
    });
    table
}

/// Share of what the vCPU and the reader that serves it pay for a kind.
fn share(row: &Row, kind: TollKind) -> String {
    let of_kind = |toll: &&Toll| TollName::parse(&toll.name).kind == kind;
    let tolls = row.tolls().iter().filter(of_kind);
    let costs: Vec<f64> = tolls.map(Toll::cost_per_page).collect();
    if costs.is_empty() {
        return NONE.to_owned();
    }
    figure::share(costs.iter().sum(), Toll::sum(row.tolls()))
}

fn largest(row: &Row) -> String {
    let mut tolls: Vec<_> = row.tolls().iter().collect();
    tolls.sort_by(|a, b| b.cost_per_page().total_cmp(&a.cost_per_page()));
    let sum = Toll::sum(row.tolls());
    let named = tolls.iter().take(NAMED).map(|toll| {
        let share = figure::share(toll.cost_per_page(), sum);
        format!("{} {share}", toll.name)
    });
    named.collect::<Vec<_>>().join(", ")
}

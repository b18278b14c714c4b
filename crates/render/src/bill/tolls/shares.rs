//! Shares of rows with many tolls: cache lines, locks, queues, and the largest by name.

use pagetoll_bill::{Row, Toll};

use crate::bill::axes;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Tolls of a row that are named.
const NAMED: usize = 4;

/// Kinds of contention, by what names of tolls begin with.
const KINDS: [Contention; 3] = [
    Contention {
        title: "lines",
        prefix: "line ",
    },
    Contention {
        title: "locks",
        prefix: "lock ",
    },
    Contention {
        title: "queues",
        prefix: "queue ",
    },
];

struct Contention {
    title: &'static str,
    prefix: &'static str,
}

impl Contention {
    /// Tolls of the vCPU, and of the reader that serves it.
    fn includes(&self, toll: &Toll) -> bool {
        let name = toll.name.strip_prefix("reader ").unwrap_or(&toll.name);
        name.starts_with(self.prefix)
    }
}

pub(super) fn table(rows: &[&Row]) -> Table {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    let sum = |row: &&Row| figure::cost(Toll::sum(row.tolls()));
    table.each(rows, Column::right("sum").rank(2), sum);
    for kind in KINDS {
        table.each(rows, Column::right(kind.title).rank(1), |row| {
            share(row, &kind)
        });
    }
    table.each(rows, Column::left("the largest").wrapping(), |row| {
        largest(row)
    });
    table
}

fn share(row: &Row, kind: &Contention) -> String {
    let tolls = row.tolls().iter().filter(|toll| kind.includes(toll));
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

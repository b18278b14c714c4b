//! What a page pays for, item by item: a column for each toll, or, where there are many, the largest of each row.

mod shares;

use pagetoll_bill::{Bill, Role, Row, Toll};

use super::{axes, has_rates, in_order, is_own, unit};
use crate::document::{Bar, Bars, Section};
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, NONE, Table};

/// More tolls than this are no columns of a table.
const MOST_COLUMNS: usize = 10;

/// More bars than this are not looked at.
const MOST_BARS: usize = 40;

/// The items of each row. Those of user space are in its own table, without Xen and what Xen adds; those of memory
/// shapes too.
pub(super) fn section(bill: &Bill, detail: Detail) -> Section {
    let itemised: Vec<&Row> = bill
        .rows
        .iter()
        .filter(|row| is_itemised(bill, row))
        .collect();
    let of_detail = |row: &&&Row| detail != Detail::Short || is_telling(row, &itemised);
    let rows: Vec<&Row> = itemised.iter().filter(of_detail).copied().collect();
    let shown = if rows.len() < itemised.len() {
        " at a middle and the largest batch"
    } else {
        ""
    };
    let unit = unit(bill);
    let names = by_name(&rows);
    if names.len() > MOST_COLUMNS {
        let title = format!("Where a page's cost goes{shown}, {unit}");
        Section::table(title, shares::table(&rows))
    } else {
        let title = format!("Tolls of each mechanism{shown}, {unit}");
        Section::table(title, table(&rows, &names))
    }
}

/// The same, drawn.
pub(super) fn bars(bill: &Bill) -> Section {
    let rows = bill.rows.iter().filter(|row| is_itemised(bill, row));
    let rows: Vec<&Row> = rows.take(MOST_BARS).collect();
    let names = by_name(&rows);
    let amount = |row: &Row, name: &str| {
        let tolls = row.tolls().iter().filter(|toll| toll.name == name);
        tolls.map(Toll::cost_per_page).sum()
    };
    let labels = labels(&rows);
    let bars = rows.iter().zip(labels).map(|(row, label)| Bar {
        label,
        amounts: names.iter().map(|name| amount(row, name)).collect(),
    });
    let bars = Bars {
        unit: unit(bill),
        parts: names.iter().map(|name| (*name).to_owned()).collect(),
        rows: bars.collect(),
    };
    Section::bars("What a page pays for", bars)
}

/// A row's mechanism, and what else tells it from the others.
fn labels(rows: &[&Row]) -> Vec<String> {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    let titles: Vec<&str> = table
        .columns
        .iter()
        .map(|column| column.title.as_str())
        .collect();
    let label = |cells: &Vec<String>| {
        let named = cells.iter().zip(&titles).enumerate();
        let named = named.filter(|(_, (cell, _))| *cell != NONE);
        let words = named.map(
            |(index, (cell, title))| match (index, cell.parse::<f64>()) {
                (0, _) | (_, Err(_)) => cell.clone(),
                (_, Ok(_)) => format!("{title} {cell}"),
            },
        );
        words.collect::<Vec<_>>().join(", ")
    };
    table.rows.iter().map(label).collect()
}

fn is_itemised(bill: &Bill, row: &Row) -> bool {
    let of_mechanism = match row.role() {
        Role::Before | Role::After | Role::Alternative => true,
        // A rate's ceiling is what touching a page costs, which is an item of the others.
        Role::Baseline => has_rates(bill),
        Role::Observed => false,
    };
    of_mechanism && row.key.folio.is_none() && is_own(row) && !row.tolls().is_empty()
}

fn by_name<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let tolls = rows.iter().flat_map(|row| row.tolls());
    in_order(tolls.map(|toll| toll.name.as_str()))
}

/// Whether the row is its mechanism's at a middle or the largest batch, of three or more.
fn is_telling(row: &Row, rows: &[&Row]) -> bool {
    let at_any_batch = row.key.clone().at_batch(1);
    let same = rows
        .iter()
        .filter(|other| other.key.clone().at_batch(1) == at_any_batch);
    let mut batches: Vec<u32> = same.map(|other| other.key.batch).collect();
    batches.sort_unstable();
    let middle = batches.get(batches.len() / 2);
    batches.len() < 3 || middle == Some(&row.key.batch) || batches.last() == Some(&row.key.batch)
}

fn table(rows: &[&Row], names: &[&str]) -> Table {
    let mut table = Table::default();
    axes::label(&mut table, rows);
    for name in names {
        let column = Column::right(*name).rank(rank(rows, names, name));
        table.each(rows, column, |row| item(row, name));
    }
    // Two tolls say more than their sum, which is the row's cost.
    let rank = u8::try_from(names.len().saturating_sub(2)).unwrap_or(u8::MAX);
    let sum = |row: &&Row| figure::cost(Toll::sum(row.tolls()));
    table.each(rows, Column::right("sum").rank(rank), sum);
    table
}

/// Tolls are left out from the smallest on.
fn rank(rows: &[&Row], names: &[&str], name: &str) -> u8 {
    let most = |name: &str| {
        let tolls = rows.iter().flat_map(|row| row.tolls());
        let tolls = tolls.filter(|toll| toll.name == name);
        tolls.map(Toll::cost_per_page).fold(0.0, f64::max)
    };
    let smaller = names.iter().filter(|other| most(other) < most(name));
    u8::try_from(smaller.count()).unwrap_or(u8::MAX)
}

fn item(row: &Row, name: &str) -> String {
    let tolls = row.tolls().iter().filter(|toll| toll.name == name);
    let costs: Vec<f64> = tolls.map(Toll::cost_per_page).collect();
    if costs.is_empty() {
        return NONE.to_owned();
    }
    figure::cost(costs.iter().sum())
}

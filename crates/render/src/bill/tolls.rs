//! What a page pays for, item by item.

use pagetoll_bill::{Bill, Row, Toll};

use super::super::Detail;
use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::{has_batches, in_order, mechanism_rows};
use crate::words::word;

/// The items of each mechanism. Those of user space stand in its own table: without Xen, and what Xen adds.
pub(super) fn section(bill: &Bill, detail: Detail) -> Section {
    let shown = match detail {
        Detail::Short if has_batches(bill) => " at a middle and the largest batch",
        Detail::Short | Detail::Full => "",
    };
    let unit = figure::unit_per_item(bill);
    Section::table(
        format!("Tolls of each mechanism{shown}, {unit}"),
        table(bill, detail),
    )
}

fn table(bill: &Bill, detail: Detail) -> Table {
    let rows: Vec<&Row> = mechanism_rows(bill)
        .filter(|row| !row.tolls.is_empty())
        .filter(|row| detail == Detail::Full || is_telling(row, bill))
        .collect();
    let tolls = rows.iter().flat_map(|row| &row.tolls);
    let names = in_order(tolls.map(|toll| toll.name.as_str()));
    let labelled = labels(bill);
    let heads = [
        ("operation", Align::Left),
        ("system", Align::Left),
        ("mechanism", Align::Left),
        ("batch", Align::Right),
        ("kernel", Align::Left),
    ];
    let mut columns: Vec<_> = heads
        .into_iter()
        .filter(|(name, _)| labelled.contains(name))
        .collect();
    columns.extend(names.iter().map(|name| (*name, Align::Right)));
    columns.push(("sum", Align::Right));
    let mut table = Table::new(columns);
    for row in rows {
        let labels = labelled.iter().map(|label| match *label {
            "operation" => row.operation.clone(),
            "system" => word(row.system),
            "mechanism" => row.mechanism.clone(),
            "kernel" => row.kernel.clone().unwrap_or_default(),
            _ => row.batch.to_string(),
        });
        let items = names.iter().map(|name| item(row, name));
        let sum = row.tolls.iter().map(Toll::cost_per_page).sum();
        table.row(labels.chain(items).chain([figure::cost(sum)]));
    }
    table
}

/// What tells the rows of this bill apart.
fn labels(bill: &Bill) -> Vec<&'static str> {
    let operations = in_order(mechanism_rows(bill).map(|row| row.operation.as_str()));
    let several = (operations.len() > 1).then_some("operation");
    let systems = in_order(mechanism_rows(bill).map(|row| row.system));
    let several_systems = (systems.len() > 1).then_some("system");
    let batch = has_batches(bill).then_some("batch");
    let kernel = mechanism_rows(bill).any(|row| row.kernel.is_some());
    let kernel = kernel.then_some("kernel");
    several
        .into_iter()
        .chain(several_systems)
        .chain(["mechanism"])
        .chain(batch)
        .chain(kernel)
        .collect()
}

/// Whether the row is its mechanism's at a middle or the largest batch.
fn is_telling(row: &Row, bill: &Bill) -> bool {
    let identity = |row: &Row| (row.operation.clone(), row.mechanism.clone(), row.system);
    let same = mechanism_rows(bill).filter(|other| identity(other) == identity(row));
    let mut batches: Vec<u32> = same.map(|other| other.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let middle = batches.get(batches.len() / 2);
    middle == Some(&row.batch) || batches.last() == Some(&row.batch)
}

fn item(row: &Row, name: &str) -> String {
    let toll = row.tolls.iter().find(|toll| toll.name == name);
    toll.map_or_else(
        || NONE.to_owned(),
        |toll| figure::cost(toll.cost_per_page()),
    )
}

//! What mapping memory for DMA costs: a line for each shape, a column for each kernel or mechanism.

use pagetoll_bill::{Backend, Bill, Row};

use super::super::Detail;
use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::in_order;

/// The tables of the pin route.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    let unit = figure::unit_per_item(bill);
    let operations = in_order(bill.rows.iter().map(|row| row.operation.as_str()));
    let mut sections: Vec<_> = operations
        .iter()
        .map(|operation| Section::table(format!("{operation}, {unit}"), costs(bill, operation)))
        .collect();
    sections.push(Section::table("Physical memory", layouts(bill)));
    let title = format!("Tolls, {unit}");
    sections.push(Section::table(title, tolls(bill, detail)));
    sections
}

/// The kernel where there is one, and the mechanism where it is not the kernel's own.
fn column(row: &Row) -> String {
    let mechanism = (row.mechanism != "kernel").then(|| row.mechanism.clone());
    let parts: Vec<_> = [row.kernel.clone(), mechanism]
        .into_iter()
        .flatten()
        .collect();
    parts.join(" ")
}

fn columns(bill: &Bill) -> Vec<String> {
    let mut columns = Vec::new();
    for row in &bill.rows {
        let column = column(row);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

fn folios(bill: &Bill) -> Vec<&str> {
    in_order(bill.rows.iter().filter_map(|row| row.folio.as_deref()))
}

fn find<'a>(bill: &'a Bill, operation: &str, folio: &str, of: &str) -> Option<&'a Row> {
    bill.rows.iter().find(|row| {
        row.operation == operation && row.folio.as_deref() == Some(folio) && column(row) == of
    })
}

/// Each column but the first is compared with the one before it; of mechanisms, with the first.
fn costs(bill: &Bill, operation: &str) -> Table {
    let columns = columns(bill);
    let mut heads = vec![("folio".to_owned(), Align::Left)];
    for (index, column) in columns.iter().enumerate() {
        heads.push((column.clone(), Align::Right));
        if index > 0 {
            heads.push((
                format!("against {}", columns[reference(bill, index)]),
                Align::Right,
            ));
        }
    }
    let mut table = Table::new(heads);
    for folio in folios(bill) {
        let mut cells = vec![folio.to_owned()];
        for (index, column) in columns.iter().enumerate() {
            let row = find(bill, operation, folio, column);
            cells.push(cost(row, &mut table));
            if index > 0 {
                let before = find(bill, operation, folio, &columns[reference(bill, index)]);
                cells.push(relation(row, before));
            }
        }
        table.row(cells);
    }
    table
}

fn reference(bill: &Bill, index: usize) -> usize {
    if bill.backend == Backend::Lab {
        index - 1
    } else {
        0
    }
}

fn cost(row: Option<&Row>, table: &mut Table) -> String {
    match row {
        None => NONE.to_owned(),
        Some(row) => match &row.unavailable {
            Some(reason) => table.unavailable(reason),
            // Below a tenth, one decimal says nothing.
            None if row.cost_per_page.is_some_and(|cost| cost < 1.0) => small(row),
            None => figure::cost_of(row),
        },
    }
}

fn small(row: &Row) -> String {
    let mean = row.cost_per_page.unwrap_or_default();
    match row.stddev {
        Some(stddev) => format!("{mean:.5} +- {stddev:.5}"),
        None => format!("{mean:.5}"),
    }
}

fn relation(row: Option<&Row>, before: Option<&Row>) -> String {
    let cost = |row: Option<&Row>| row.and_then(|row| row.cost_per_page);
    match (cost(row), cost(before)) {
        (Some(cost), Some(reference)) => figure::relation(cost, reference),
        _ => NONE.to_owned(),
    }
}

fn layouts(bill: &Bill) -> Table {
    let mut table = Table::new([
        ("folio", Align::Left),
        ("", Align::Left),
        ("pages", Align::Right),
        ("runs", Align::Right),
        ("folios", Align::Right),
        ("largest folio, pages", Align::Right),
    ]);
    let mut seen = Vec::new();
    for row in &bill.rows {
        let key = (row.folio.clone(), row.kernel.clone());
        let Some(layout) = row.layout.filter(|_| !seen.contains(&key)) else {
            continue;
        };
        seen.push(key);
        table.row([
            row.folio.clone().unwrap_or_default(),
            row.kernel.clone().unwrap_or_default(),
            row.pages.get().to_string(),
            layout.runs.to_string(),
            layout.folios.to_string(),
            layout.largest_folio.to_string(),
        ]);
    }
    table
}

/// Shapes whose tolls fit a terminal.
const TELLING: [&str; 3] = ["4K", "2M", "1G"];

fn tolls(bill: &Bill, detail: Detail) -> Table {
    let mut table = Table::new([
        ("operation", Align::Left),
        ("folio", Align::Left),
        ("", Align::Left),
        ("toll", Align::Left),
        ("times/page", Align::Right),
        ("each", Align::Right),
        ("per page", Align::Right),
    ]);
    for row in &bill.rows {
        let folio = row.folio.as_deref().unwrap_or_default();
        if detail == Detail::Short && (!TELLING.contains(&folio) || row.operation == "first-map") {
            continue;
        }
        // A single toll says no more than the cost.
        if row.tolls.len() < 2 {
            continue;
        }
        for toll in &row.tolls {
            table.row([
                row.operation.clone(),
                folio.to_owned(),
                column(row),
                toll.name.clone(),
                figure::count(toll.count_per_page),
                figure::cost(toll.cost_each),
                figure::cost(toll.cost_per_page()),
            ]);
        }
    }
    table
}

//! What each mechanism costs, compared with what kernels do today.

use pagetoll_bill::{Bill, Check, Role, Row, System};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::{has_batches, in_order, mechanism_rows, safety};
use crate::words::word;

/// One table for each operation that mechanisms do, and one more for what a 32-bit guest does of it.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let all = in_order(mechanism_rows(bill).map(|row| (row.operation.as_str(), row.system)));
    all.into_iter()
        .map(|(operation, system)| {
            let title = format!("{}: what each mechanism costs", title(operation, system));
            Section::table(title, table(bill, (operation, system)))
        })
        .collect()
}

fn title(operation: &str, system: System) -> String {
    match system {
        System::XenPv32Dom0 => format!("{operation}, by a 32-bit guest ({})", word(system)),
        System::XenPvDom0 | System::Native | System::KvmGuest => operation.to_owned(),
    }
}

fn table(bill: &Bill, (operation, system): (&str, System)) -> Table {
    let rows: Vec<&Row> = mechanism_rows(bill)
        .filter(|row| row.operation == operation && row.system == system)
        .collect();
    let before: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| row.role == Role::Before)
        .collect();
    let against = match in_order(before.iter().map(|row| row.mechanism.as_str())).as_slice() {
        [one] => format!("against {one}"),
        [] => "against before (not billed)".to_owned(),
        _ => "against before".to_owned(),
    };
    let raced = rows.iter().any(|row| row.checks.iter().any(Check::is_race));
    let several = rows.iter().any(|row| row.kernel.is_some());
    // What is the same in every row of the route is left away.
    let shown = [
        true,
        true,
        has_batches(bill),
        true,
        true,
        true,
        raced,
        several,
    ];
    let heads = [
        ("mechanism".to_owned(), Align::Left),
        ("role".to_owned(), Align::Left),
        ("batch".to_owned(), Align::Right),
        (figure::unit_per_item(bill), Align::Right),
        (against, Align::Right),
        (figure::per_item("crossings", bill), Align::Right),
        ("on SMP".to_owned(), Align::Left),
        ("kernel".to_owned(), Align::Left),
    ];
    let mut table = Table::new(only(heads, shown));
    for row in rows {
        let cost = match &row.unavailable {
            Some(reason) => table.unavailable(reason),
            None => figure::cost_of(row),
        };
        let cells = [
            row.mechanism.clone(),
            word(row.role),
            row.batch.to_string(),
            cost,
            relation(row, &before),
            row.crossings_per_page
                .map_or_else(|| "not counted".to_owned(), figure::count),
            safety::verdict(row),
            row.kernel.clone().unwrap_or_default(),
        ];
        table.row(only(cells, shown));
    }
    table
}

/// Those of the columns that are shown.
fn only<T>(all: [T; 8], shown: [bool; 8]) -> impl Iterator<Item = T> {
    all.into_iter()
        .zip(shown)
        .filter_map(|(one, shown)| shown.then_some(one))
}

/// Compared with the mechanism of today at the same batch, or else at its smallest.
fn relation(row: &Row, before: &[&Row]) -> String {
    if row.role == Role::Before {
        return "reference".to_owned();
    }
    let is_same = |other: &&&Row| other.system == row.system && other.kernel == row.kernel;
    let on_same = before.iter().filter(is_same);
    let costs = on_same.filter_map(|other| Some((other.batch, other.cost_per_page?)));
    let reference = costs.min_by_key(|(batch, _)| (*batch != row.batch, *batch));
    match (row.cost_per_page, reference) {
        (Some(cost), Some((_, reference))) => figure::relation(cost, reference),
        _ => NONE.to_owned(),
    }
}

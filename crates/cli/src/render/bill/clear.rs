//! What each mechanism costs, compared with what kernels do today.

use pagetoll_bill::{Bill, Role, Row};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::{in_order, mechanism_rows, safety};
use crate::words::word;

/// One table for each operation that mechanisms do.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let operations = in_order(mechanism_rows(bill).map(|row| row.operation.as_str()));
    operations
        .into_iter()
        .map(|operation| {
            let title = format!("{operation}: what each mechanism costs");
            Section::table(title, table(bill, operation))
        })
        .collect()
}

fn table(bill: &Bill, operation: &str) -> Table {
    let rows: Vec<&Row> = mechanism_rows(bill)
        .filter(|row| row.operation == operation)
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
    let several = rows.iter().any(|row| row.kernel.is_some());
    let mut columns = vec![
        ("mechanism", Align::Left),
        ("role", Align::Left),
        ("batch", Align::Right),
        (figure::unit_per_page(bill.unit), Align::Right),
        (against.as_str(), Align::Right),
        ("crossings/page", Align::Right),
        ("on SMP", Align::Left),
    ];
    columns.extend(several.then_some(("kernel", Align::Left)));
    let mut table = Table::new(columns);
    for row in rows {
        let cost = match &row.unavailable {
            Some(reason) => table.unavailable(reason),
            None => figure::cost_of(row),
        };
        let mut cells = vec![
            row.mechanism.clone(),
            word(row.role),
            row.batch.to_string(),
            cost,
            relation(row, &before),
            row.crossings_per_page
                .map_or_else(|| "not counted".to_owned(), figure::count),
            safety::verdict(row),
        ];
        cells.extend(several.then(|| row.kernel.clone().unwrap_or_default()));
        table.row(cells);
    }
    table
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

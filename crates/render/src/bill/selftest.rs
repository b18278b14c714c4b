//! Rates beside those of the kernel's own `demand_paging_test`.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Operation, Row};

use super::rates::{pages_per_second, rate};
use super::{axes, is_own};
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Each row of the kernel's own test, and pagetoll's of the same order.
pub(super) fn section(bill: &Bill) -> Section {
    let rows = bill.rows.iter().filter(|row| !is_own(row));
    let title = "Beside the kernel's own demand_paging_test, pages in a second";
    Section::table(title, table(bill, &rows.collect::<Vec<_>>()))
}

fn table(bill: &Bill, rows: &[&Row]) -> Table {
    let mut table = Table::default();
    let own = |row: &Row| {
        bill.row(&RowKey {
            operation: Operation::PageIn,
            ..row.key.clone()
        })
    };
    let of_own = |row: &&Row| own(row).map_or_else(|| NONE.to_owned(), rate);
    let theirs = |row: &&Row| pages_per_second(row);
    axes::label(&mut table, rows);
    table.each(rows, Column::right("pagetoll"), of_own);
    table.each(rows, Column::right("selftest"), |row| rate(row));
    table.each(rows, Column::right("gain over it").rank(4), |row| {
        figure::both(
            theirs(row),
            own(row).and_then(pages_per_second),
            figure::gain,
        )
    });
    table
}

//! Rates beside those of the kernel's own `demand_paging_test`.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Operation, Row};

use super::gain::{self, Gains};
use super::rates::rate;
use super::{axes, rows};
use crate::document::Section;
use crate::table::{Column, NONE, Table};

/// The test draws a random number for each page, at some 24 us where its instructions are emulated.
const EMULATED: &str = "Beside the kernel's own demand_paging_test, pages in a second; not comparable: this KVM emulates \
     ring 0, where the test draws a random number for each page";

/// Each row of the kernel's own test, and pagetoll's of the same order.
pub(super) fn section(bill: &Bill) -> Section {
    let rows = bill.rows.iter();
    let rows = rows.filter(|row| !rows::is_own(row) && row.figures().is_some());
    let title = match bill.emulates_ring_0() {
        true => EMULATED,
        false => "Beside the kernel's own demand_paging_test, pages in a second",
    };
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
    let gains = Gains::new(bill, rows.to_vec());
    axes::label(&mut table, rows);
    table.each(rows, Column::right("pagetoll"), of_own);
    table.each(rows, Column::right("selftest"), |row| rate(row));
    if !bill.emulates_ring_0() {
        table.each(rows, Column::right("gain over it").rank(4), |row| {
            gain::text(own(row).and_then(|own| gains.between(own, row)))
        });
    }
    table
}

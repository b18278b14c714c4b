//! Costs of mechanisms, compared with the one that the fix replaces.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Check, Operation, Row, System};

use super::gain::{self, Gains};
use super::{axes, rows, safety};
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// One table for each operation that mechanisms do, and one more for what a 32-bit guest does of it.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    if rows::has_rates(bill) || rows::has_own_tables(bill) {
        return Vec::new();
    }
    let rows = rows::mechanisms(bill);
    let all = unique(rows.iter().map(|row| Shared::from(&row.key)));
    all.into_iter()
        .map(|shared| {
            let of_table = rows.iter().filter(|row| Shared::from(&row.key) == shared);
            let gains = Gains::new(bill, of_table.copied().collect());
            let title = format!("{}: what each mechanism costs", shared.title());
            Section::table(title, table(bill, &gains))
        })
        .collect()
}

/// The axes that rows of one table share.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shared {
    operation: Operation,
    system: System,
}

impl From<&RowKey> for Shared {
    fn from(key: &RowKey) -> Self {
        Self {
            operation: key.operation,
            system: key.system,
        }
    }
}

impl Shared {
    fn title(self) -> String {
        let Self { operation, system } = self;
        match system {
            System::XenPv32Dom0 => format!("{operation}, by a 32-bit guest ({system})"),
            System::XenPvDom0 | System::XenPvDomU | System::Native | System::KvmGuest => {
                operation.to_string()
            }
        }
    }
}

fn table(bill: &Bill, gains: &Gains<'_>) -> Table {
    let mut table = Table::default();
    let rows = &gains.rows;
    let per_item = Column::right(figure::per_item("crossings", bill)).rank(2);
    axes::label_with_roles(&mut table, rows);
    table.each(rows, Column::right(figure::unit_per_item(bill)), |row| {
        figure::cost_of(row)
    });
    table.each(rows, Column::right(gains.title()).rank(3), |row| {
        gains.cell(row)
    });
    if gains.has_batches() {
        table.each(rows, Column::right("gain of batch").rank(0), |row| {
            gain::text(gains.batch(row))
        });
    }
    table.each(rows, per_item, |row| crossings(rows, row));
    if rows.iter().any(|row| row.checks.iter().any(Check::is_race)) {
        let on_smp = Column::left("on SMP").rank(4).wrapping();
        table.each(rows, on_smp, |row| safety::verdict(row));
    }
    table
}

/// No column of what is not counted in any row.
fn crossings(rows: &[&Row], row: &Row) -> String {
    match row.crossings() {
        Some(crossings) => figure::count(crossings.per_page),
        None if rows.iter().any(|row| row.crossings().is_some()) => "not counted".to_owned(),
        None => NONE.to_owned(),
    }
}

//! What each mechanism costs, compared with the one that the fix replaces.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Check, Operation, Row, System};

use super::{axes, gain, gain_title, has_rates, in_order, mechanism_rows, safety};
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// One table for each operation that mechanisms do, and one more for what a 32-bit guest does of it.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    if has_rates(bill) {
        return Vec::new();
    }
    let rows: Vec<&Row> = mechanism_rows(bill).collect();
    let all = in_order(rows.iter().map(|row| Shared::of(&row.key)));
    all.into_iter()
        .map(|shared| {
            let of_table = rows.iter().filter(|row| Shared::of(&row.key) == shared);
            let of_table: Vec<&Row> = of_table.copied().collect();
            let title = format!("{}: what each mechanism costs", shared.title());
            Section::table(title, table(bill, &of_table))
        })
        .collect()
}

/// What the rows of one table have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shared {
    operation: Operation,
    system: System,
}

impl Shared {
    const fn of(key: &RowKey) -> Self {
        Self {
            operation: key.operation,
            system: key.system,
        }
    }

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

fn table(bill: &Bill, rows: &[&Row]) -> Table {
    let mut table = Table::default();
    let cost = |row: &&Row| figure::cost_of(row, &mut table);
    let costs: Vec<_> = rows.iter().map(cost).collect();
    let per_item = Column::right(figure::per_item("crossings", bill)).rank(2);
    axes::label_with_roles(&mut table, rows);
    table.column(Column::right(figure::unit_per_item(bill)), costs);
    table.each(rows, Column::right(gain_title(rows)).rank(3), |row| {
        gain(rows, row)
    });
    table.each(rows, per_item, |row| crossings(rows, row));
    if rows.iter().any(|row| row.checks.iter().any(Check::is_race)) {
        let on_smp = Column::left("on SMP").rank(4).wrapping();
        table.each(rows, on_smp, |row| safety::verdict(row));
    }
    table
}

/// What is not counted in any row is no column.
fn crossings(rows: &[&Row], row: &Row) -> String {
    match row.crossings() {
        Some(crossings) => figure::count(crossings.per_page),
        None if rows.iter().any(|row| row.crossings().is_some()) => "not counted".to_owned(),
        None => NONE.to_owned(),
    }
}

//! What each mechanism costs, compared with the one that the fix replaces.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Check, Operation, Row, System};

<<<<<<< HEAD
use super::{gain, gain_title, has_rates, in_order, mechanism_rows, safety};
=======
use super::{axes, gain, gain_title, has_rates, in_order, mechanism_rows, safety};
>>>>>>> h/render
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
            System::XenPvDom0 | System::Native | System::KvmGuest => operation.to_string(),
        }
    }
}

fn table(bill: &Bill, rows: &[&Row]) -> Table {
    let mut table = Table::default();
<<<<<<< HEAD
    let keys = || rows.iter().map(|row| &row.key);
    let costs: Vec<_> = rows
        .iter()
        .map(|row| figure::cost_of(row, &mut table))
        .collect();
    let role = |row: &&Row| row.role().to_string();
    let batches = keys().map(|key| key.batch).max() > Some(1);
    let batch = |key: &RowKey| figure::optional(batches.then_some(key.batch));
    let gains = rows.iter().map(|row| gain(rows, row));
    let crossings = rows.iter().map(|row| crossings(rows, row));
    let kernels = keys().map(|key| figure::optional(key.kernel.as_deref()));
    table.column(
        Column::left("mechanism"),
        keys().map(|key| key.method.to_string()),
    );
    table.column(Column::left("role").rank(1), rows.iter().map(role));
    table.column(
        Column::right("vCPUs"),
        keys().map(|key| figure::optional(key.vcpus)),
    );
    table.column(Column::right("batch"), keys().map(batch));
    table.column(Column::right(figure::unit_per_item(bill)), costs);
    table.column(Column::right(gain_title(rows)).rank(3), gains);
    table.column(
        Column::right(figure::per_item("crossings", bill)).rank(2),
        crossings,
    );
    if rows.iter().any(|row| row.checks.iter().any(Check::is_race)) {
        let verdicts = rows.iter().map(|row| safety::verdict(row));
        table.column(Column::left("on SMP").rank(4).wrapping(), verdicts);
=======
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
>>>>>>> h/render
    }
    table.column(Column::left("kernel").wrapping(), kernels);
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

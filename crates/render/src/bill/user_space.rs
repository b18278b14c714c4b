//! What user space pays under the hypervisor and without it; the difference is the toll.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Crossings, Method, Row, System};

use super::in_order;
use crate::document::Section;
use crate::figure;
use crate::table::{Column, Table};

/// One line for each operation and, where there are several, for each kernel.
pub(super) fn section(bill: &Bill) -> Section {
    let observed = bill.rows.iter().map(|row| &row.key);
    let observed = observed.filter(|key| key.method == Method::Kernel && key.folio.is_none());
    let mut keys = in_order(observed.map(|key| Pair::key(key, System::XenPvDom0)));
    let operations = in_order(keys.iter().map(|key| key.operation));
    keys.sort_by_key(|key| operations.iter().position(|one| *one == key.operation));
    let pairs: Vec<_> = keys.into_iter().map(|key| Pair::of(bill, key)).collect();
    let unit = figure::unit(bill.unit);
    let item = bill.route.observed_item();
    let title = format!("What user space sees, {unit}/{item}");
    Section::table(title, table(&pairs, item))
}

/// An operation on one kernel, without Xen and under it.
struct Pair<'a> {
    key: RowKey,
    native: Option<&'a Row>,
    xen: Option<&'a Row>,
}

fn table(pairs: &[Pair<'_>], item: &str) -> Table {
    let mut table = Table::default();
    let mut native = Vec::new();
    let mut xen = Vec::new();
    for pair in pairs {
        native.push(cost(pair.native, &mut table));
        xen.push(cost(pair.xen, &mut table));
    }
    let kernel = |pair: &Pair<'_>| figure::optional(pair.key.kernel.as_deref());
    let per = |what: &str| Column::right(format!("{what}/{item}"));
    table.each(pairs, Column::left("operation"), |pair| {
        pair.key.operation.to_string()
    });
    if pairs.iter().any(|pair| pair.key.batch > 1) {
        table.each(pairs, Column::right("batch"), |pair| {
            pair.key.batch.to_string()
        });
    }
    table.each(pairs, Column::left("kernel").wrapping(), kernel);
    table.column(Column::right(System::Native.name()), native);
    table.column(Column::right(System::XenPvDom0.name()), xen);
    table.each(pairs, Column::right("toll").rank(6), Pair::toll);
    table.each(pairs, Column::right("toll's share").rank(5), Pair::share);
    table.each(pairs, per("traps").rank(4), |pair| {
        pair.crossings(Crossings::traps)
    });
    table.each(pairs, per("hypercalls").rank(3), |pair| {
        pair.crossings(Crossings::hypercalls)
    });
    if pairs.iter().any(|pair| pair.key.kernel.is_some()) {
        let gain = Column::right("dom0's gain over first").rank(2);
        table.each(pairs, gain, |pair| {
            figure::both(pair.xen_cost(), pair.first(pairs).xen_cost(), figure::gain)
        });
        let change = Column::right("native against first").rank(1);
        table.each(pairs, change, |pair| {
            let change = |new, old| figure::change(new, old, 2);
            figure::both(pair.native_cost(), pair.first(pairs).native_cost(), change)
        });
    }
    table
}

fn cost(row: Option<&Row>, table: &mut Table) -> String {
    row.map_or_else(
        || "not billed".to_owned(),
        |row| figure::cost_of(row, table),
    )
}

impl<'a> Pair<'a> {
    fn key(key: &RowKey, system: System) -> RowKey {
        RowKey {
            system,
            ..key.clone()
        }
    }

    fn of(bill: &'a Bill, key: RowKey) -> Self {
        Self {
            native: bill.row(&Self::key(&key, System::Native)),
            xen: bill.row(&key),
            key,
        }
    }

    /// The same operation on the first kernel.
    fn first<'b>(&self, pairs: &'b [Self]) -> &'b Self {
        let same = pairs.iter().find(|pair| {
            pair.key.operation == self.key.operation && pair.key.batch == self.key.batch
        });
        same.unwrap_or(&pairs[0])
    }

    fn native_cost(&self) -> Option<f64> {
        self.native.and_then(Row::cost)
    }

    fn xen_cost(&self) -> Option<f64> {
        self.xen.and_then(Row::cost)
    }

    /// What the hypervisor adds.
    fn toll(&self) -> String {
        figure::both(self.native_cost(), self.xen_cost(), |native, xen| {
            figure::cost(xen - native)
        })
    }

    /// Of what is paid under the hypervisor.
    fn share(&self) -> String {
        figure::both(self.native_cost(), self.xen_cost(), |native, xen| {
            figure::share(xen - native, xen)
        })
    }

    /// Of each page, as Xen counted them.
    fn crossings(&self, of: fn(&Crossings) -> f64) -> String {
        self.xen.and_then(Row::crossings).map_or_else(
            || "not counted".to_owned(),
            |crossings| figure::count(of(crossings)),
        )
    }
}

//! Costs that user space sees, under the hypervisor and without it; the difference is the toll.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Crossings, Method, Row, System};

use super::gain::{Gains, Ratio};
use super::kernels;
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// One line for each operation and, where there are several, for each kernel.
pub(super) fn section(bill: &Bill) -> Section {
    let observed = bill.rows.iter();
    let observed: Vec<&Row> = observed
        .filter(|row| row.key.method == Method::Kernel && row.key.folio.is_none())
        .collect();
    let billed = observed.iter().filter(|row| row.figures().is_some());
    let mut keys = unique(billed.map(|row| RowKey {
        system: System::XenPvDom0,
        ..row.key.clone()
    }));
    let operations = unique(keys.iter().map(|key| key.operation));
    keys.sort_by_key(|key| operations.iter().position(|one| *one == key.operation));
    let pairs: Vec<_> = keys.into_iter().map(|key| Pair::new(bill, key)).collect();
    let unit = figure::unit(bill.unit);
    let item = bill.route.observed_item();
    let title = format!("What user space sees, {unit}/{item}");
    Section::table(title, table(&Gains::new(bill, observed), &pairs, item))
}

/// An operation on one kernel, without Xen and under it.
struct Pair<'a> {
    key: RowKey,
    native: Option<&'a Row>,
    xen: Option<&'a Row>,
}

fn table(gains: &Gains<'_>, pairs: &[Pair<'_>], item: &str) -> Table {
    let mut table = Table::default();
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
    table.each(pairs, Column::right(System::Native.name()), |pair| {
        cost(pair.native)
    });
    table.each(pairs, Column::right(System::XenPvDom0.name()), |pair| {
        cost(pair.xen)
    });
    table.each(pairs, Column::right("toll").rank(6), Pair::toll);
    table.each(pairs, Column::right("toll's share").rank(5), Pair::share);
    table.each(pairs, per("traps").rank(4), |pair| {
        pair.crossings(Crossings::traps)
    });
    table.each(pairs, per("hypercalls").rank(3), |pair| {
        pair.crossings(Crossings::hypercalls)
    });
    let against_first = |row: Option<&Row>| {
        let change = row.and_then(|row| {
            let first = kernels::first(&gains.rows, row)?;
            gains.between(row, first)
        });
        change.map_or_else(|| NONE.to_owned(), Ratio::as_change)
    };
    let title = |system: System| Column::right(format!("{system} against first"));
    table.each(pairs, title(System::Native).rank(2), |pair| {
        against_first(pair.native)
    });
    table.each(pairs, title(System::XenPvDom0).rank(1), |pair| {
        against_first(pair.xen)
    });
    table
}

/// A row of the bill without figures has its reason below.
fn cost(row: Option<&Row>) -> String {
    row.map_or_else(|| "not billed".to_owned(), figure::cost_of)
}

impl<'a> Pair<'a> {
    fn new(bill: &'a Bill, key: RowKey) -> Self {
        let native = RowKey {
            system: System::Native,
            ..key.clone()
        };
        Self {
            native: bill.row(&native),
            xen: bill.row(&key),
            key,
        }
    }

    fn native_cost(&self) -> Option<f64> {
        self.native.and_then(Row::cost)
    }

    fn xen_cost(&self) -> Option<f64> {
        self.xen.and_then(Row::cost)
    }

    /// The difference that the hypervisor makes.
    fn toll(&self) -> String {
        figure::both(self.native_cost(), self.xen_cost(), |native, xen| {
            figure::cost(xen - native)
        })
    }

    /// The toll as a share of the cost under the hypervisor.
    fn share(&self) -> String {
        figure::both(self.native_cost(), self.xen_cost(), |native, xen| {
            figure::share(xen - native, xen)
        })
    }

    /// Crossings of each page, as Xen counted them.
    fn crossings(&self, of: fn(&Crossings) -> f64) -> String {
        self.xen.and_then(Row::crossings).map_or_else(
            || "not counted".to_owned(),
            |crossings| figure::count(of(crossings)),
        )
    }
}

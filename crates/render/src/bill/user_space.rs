//! What user space pays under the hypervisor and without it; the difference is the toll.

use pagetoll_bill::crossing::{is_hypercall, is_trap};
use pagetoll_bill::{Bill, Row, System};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::{in_order, user_rows};
use crate::words::word;

/// The table of what user space sees: one line for each operation and, where there are several, for each kernel.
pub(super) fn section(bill: &Bill) -> Section {
    let kernels = in_order(user_rows(bill).map(kernel_of));
    let several = kernels.iter().any(|kernel| !kernel.is_empty());
    let mut table = Table::new(columns(bill, several));
    for operation in in_order(user_rows(bill).map(|row| row.operation.as_str())) {
        let pair = |kernel: &str| Pair::of(bill, operation, kernel);
        let first = kernels.first().map(|kernel| pair(kernel));
        for kernel in &kernels {
            let mut cells = vec![operation.to_owned()];
            cells.extend(several.then(|| (*kernel).to_owned()));
            cells.extend(pair(kernel).cells(&mut table));
            cells.extend(
                several
                    .then(|| pair(kernel).against(first))
                    .into_iter()
                    .flatten(),
            );
            table.row(cells);
        }
    }
    let unit = per_observed(figure::unit(bill.unit), bill);
    Section::table(format!("What user space sees, {unit}"), table)
}

/// Something of one item of what user space does: `traps/page`.
fn per_observed(what: &str, bill: &Bill) -> String {
    format!("{what}/{}", bill.route.observed_item())
}

fn columns(bill: &Bill, several: bool) -> Vec<(String, Align)> {
    let right = |title: &str| (title.to_owned(), Align::Right);
    let mut columns = vec![("operation".to_owned(), Align::Left)];
    columns.extend(several.then(|| ("kernel".to_owned(), Align::Left)));
    let systems = [System::Native, System::XenPvDom0].map(|system| right(&word(system)));
    columns.extend(systems);
    columns.extend(["toll", "toll's share"].map(right));
    columns.extend(["traps", "hypercalls"].map(|what| right(&per_observed(what, bill))));
    if several {
        columns.extend(["dom0 against first", "native against first"].map(right));
    }
    columns
}

fn kernel_of(row: &Row) -> &str {
    row.kernel.as_deref().unwrap_or_default()
}

/// An operation on one kernel, without Xen and under it.
#[derive(Clone, Copy)]
struct Pair<'a> {
    native: Option<&'a Row>,
    xen: Option<&'a Row>,
}

impl<'a> Pair<'a> {
    fn of(bill: &'a Bill, operation: &str, kernel: &str) -> Self {
        let on = |system| {
            let mut rows = user_rows(bill).filter(|row| row.operation == operation);
            rows.find(|row| row.system == system && kernel_of(row) == kernel)
        };
        Self {
            native: on(System::Native),
            xen: on(System::XenPvDom0),
        }
    }

    fn cells(self, table: &mut Table) -> [String; 6] {
        let [native, xen] = [self.native, self.xen].map(|row| cost(row, table));
        let [toll, share] = toll(self.native, self.xen);
        let [traps, hypercalls] = crossings(self.xen);
        [native, xen, toll, share, traps, hypercalls]
    }

    /// Compared with the first kernel: how many times under Xen, by how much without it.
    fn against(self, first: Option<Self>) -> [String; 2] {
        let costs = |of: fn(Self) -> Option<&'a Row>| {
            let cost = |pair: Self| of(pair).and_then(|row| row.cost_per_page);
            Some((cost(self)?, cost(first?)?))
        };
        let none = || NONE.to_owned();
        [
            costs(|pair| pair.xen).map_or_else(none, |(cost, first)| figure::relation(cost, first)),
            costs(|pair| pair.native)
                .map_or_else(none, |(cost, first)| figure::change(cost, first)),
        ]
    }
}

fn cost(row: Option<&Row>, table: &mut Table) -> String {
    match row {
        None => "not billed".to_owned(),
        Some(row) => match &row.unavailable {
            Some(reason) => table.unavailable(reason),
            None => figure::cost_of(row),
        },
    }
}

/// What the hypervisor adds, and its share of what is paid under it.
fn toll(native: Option<&Row>, xen: Option<&Row>) -> [String; 2] {
    let cost = |row: Option<&Row>| row.and_then(|row| row.cost_per_page);
    match (cost(native), cost(xen)) {
        (Some(native), Some(xen)) => [figure::cost(xen - native), figure::share(xen - native, xen)],
        _ => [NONE, NONE].map(str::to_owned),
    }
}

/// Traps and hypercalls for each page, as Xen counted them.
fn crossings(xen: Option<&Row>) -> [String; 2] {
    let Some(row) = xen.filter(|row| row.crossings_per_page.is_some()) else {
        return ["not counted", "not counted"].map(str::to_owned);
    };
    let sum = |wanted: fn(&str) -> bool| {
        let counts = row.crossings.iter().filter(|(kind, _)| wanted(kind));
        // The sum of no floats is -0.0.
        figure::count(counts.fold(0.0, |sum, (_, count)| sum + count))
    };
    [sum(is_trap), sum(is_hypercall)]
}

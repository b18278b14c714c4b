//! What user space pays under the hypervisor and without it; the difference is the toll.

use pagetoll_bill::crossing::{is_hypercall, is_trap};
use pagetoll_bill::{Bill, Row, System};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};
use super::{in_order, user_rows};
use crate::words::word;

/// The table of what user space sees.
pub(super) fn section(bill: &Bill) -> Section {
    let per = |what: &str| format!("{what}/{}", bill.route.observed_item());
    let mut table = Table::new([
        ("operation".to_owned(), Align::Left),
        (word(System::Native), Align::Right),
        (word(System::XenPvDom0), Align::Right),
        ("toll".to_owned(), Align::Right),
        ("toll's share".to_owned(), Align::Right),
        (per("traps"), Align::Right),
        (per("hypercalls"), Align::Right),
    ]);
    for operation in in_order(user_rows(bill).map(|row| row.operation.as_str())) {
        let on =
            |system| user_rows(bill).find(|row| row.operation == operation && row.system == system);
        let (native, xen) = (on(System::Native), on(System::XenPvDom0));
        let costs = [native, xen].map(|row| cost(row, &mut table));
        let [toll, share] = toll(native, xen);
        let [traps, hypercalls] = crossings(xen);
        let [native, xen] = costs;
        table.row([
            operation.to_owned(),
            native,
            xen,
            toll,
            share,
            traps,
            hypercalls,
        ]);
    }
    let unit = per(figure::unit(bill.unit));
    Section::table(format!("What user space sees, {unit}"), table)
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

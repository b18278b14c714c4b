//! Rows of a bill, by what they are.

use pagetoll_bill::{Bill, Operation, Role, Route, Row};

use crate::figure;

/// True of a bill with rates: then its rows are compared by them.
pub(super) fn has_rates(bill: &Bill) -> bool {
    let mut figures = bill.rows.iter().filter_map(Row::figures);
    figures.any(|figures| figures.rate.is_some())
}

/// True of a route whose rows have tables of their own, which compare more than costs.
pub(super) const fn has_own_tables(bill: &Bill) -> bool {
    matches!(
        bill.route,
        Route::Restore | Route::Dirty | Route::Discard | Route::Migrate
    )
}

/// True of pagetoll's own measurements; the other rows are those of the kernel's selftest.
pub(super) fn is_own(row: &Row) -> bool {
    row.key.operation != Operation::DemandPagingTest
}

/// Rows of mechanisms that have figures, without shapes of memory, without baselines and without what user space sees.
pub(super) fn mechanisms(bill: &Bill) -> Vec<&Row> {
    let rows = bill.rows.iter().filter(|row| {
        let measured = match row.role() {
            Role::Before | Role::After | Role::Alternative => true,
            Role::Observed | Role::Baseline => false,
        };
        measured && row.key.folio.is_none() && is_own(row) && row.figures().is_some()
    });
    rows.collect()
}

/// Rows whose tolls are shown. Those of user space are in its own table, without Xen and what Xen adds; those of memory
/// shapes too.
pub(super) fn itemised(bill: &Bill) -> Vec<&Row> {
    let rows = bill.rows.iter().filter(|row| {
        let of_mechanism = match row.role() {
            Role::Before | Role::After | Role::Alternative => true,
            // A rate's ceiling is what touching a page costs, which is an item of the others.
            Role::Baseline => has_rates(bill),
            Role::Observed => false,
        };
        // Touches beside are in the table of discards.
        let is_elsewhere = row.key.operation == Operation::TouchBeside;
        of_mechanism
            && row.key.folio.is_none()
            && is_own(row)
            && !is_elsewhere
            && !row.tolls().is_empty()
    });
    rows.collect()
}

/// All pages in a second.
pub(super) fn pages_per_second(row: &Row) -> Option<f64> {
    Some(row.figures()?.rate?.pages_per_second)
}

/// The unit of a cost of one item: `ns/page of a vCPU`.
pub(super) fn unit(bill: &Bill) -> String {
    let several = bill.rows.iter().any(|row| row.key.vcpus.is_some());
    figure::unit_per_item(bill) + if several { " of a vCPU" } else { "" }
}

/// The bill's head with these rows.
pub(super) fn with_rows(bill: &Bill, rows: Vec<Row>) -> Bill {
    Bill {
        schema: bill.schema,
        route: bill.route,
        backend: bill.backend,
        backend_reason: bill.backend_reason.clone(),
        unit: bill.unit,
        evidence: bill.evidence,
        stack: bill.stack.clone(),
        order: bill.order.clone(),
        rows,
        notes: bill.notes.clone(),
        provenance: bill.provenance.clone(),
    }
}

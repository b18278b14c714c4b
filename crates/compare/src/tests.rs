//! Samples for the tests of this crate.

use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Bill, Figures, Operation, Row, RowKey, System, from_json};
use pagetoll_units::Pages;

/// A row of `unmap`.
pub(crate) fn clear(mechanism: Unmap, cost: f64) -> Row {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0);
    Row::new(key, Pages(4), Figures::of_runs(vec![cost]))
}

/// A bill of `unmap` without rows, counted in the lab.
pub(crate) fn sample() -> Bill {
    from_json(include_bytes!("../tests/data/bill.json")).unwrap()
}

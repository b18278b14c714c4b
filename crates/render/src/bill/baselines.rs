//! Costs that others are itemised or compared with.

use pagetoll_bill::{Bill, Role, Row, System};

use super::has_rates;
use crate::document::{Fact, Section};
use crate::figure;

/// The baselines. Where there are rates, those are in the table of rates.
pub(super) fn section(bill: &Bill) -> Section {
    let rows = bill.rows.iter().filter(|row| row.role() == Role::Baseline);
    let facts = rows
        .filter(|_| !has_rates(bill))
        .map(|row| Fact::new(name(row), value(bill, row)));
    Section::facts("Baselines", facts.collect())
}

fn value(bill: &Bill, row: &Row) -> String {
    match &row.result {
        Err(reason) => format!("unavailable: {}", reason.0),
        Ok(figures) => {
            let cost = figure::cost_with_spread(figures);
            format!("{cost} {}", figure::unit_per_item(bill))
        }
    }
}

fn name(row: &Row) -> String {
    let (method, system) = (row.key.method, row.key.system);
    match system {
        System::XenPv32Dom0 => format!("{method} ({system})"),
        System::XenPvDom0 | System::XenPvDomU | System::Native | System::KvmGuest => {
            method.to_string()
        }
    }
}

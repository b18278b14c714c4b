//! Costs that others are itemised or compared with.

use pagetoll_bill::{Bill, Role, Row, System};

use super::rows;
use crate::document::{Fact, Section};
use crate::figure;

/// The baselines. Where there are rates, those are in the table of rates.
pub(super) fn section(bill: &Bill) -> Section {
    let rows = bill.rows.iter().filter(|row| row.role() == Role::Baseline);
    let facts = rows.filter(|_| !rows::has_rates(bill)).filter_map(|row| {
        let cost = figure::cost_with_spread(row.figures()?);
        let unit = figure::unit_per_item(bill);
        Some(Fact::new(name(row), format!("{cost} {unit}")))
    });
    Section::facts("Baselines", facts.collect())
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

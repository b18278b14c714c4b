//! A program of the user's own: whose instructions an operation is, how far it can be trusted, and by which way into the
//! kernel.

use pagetoll_bill::profile::{Part, Profile};
use pagetoll_bill::{Bill, Mechanism, Method, Row};

use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Ways that are shown of a row: those that took most, and at least this share.
const MOST: usize = 12;
const LEAST_SHARE: f64 = 0.0005;
/// The toll that a dom0 pays beside what the same kernel costs without Xen.
const XEN: &str = "xen";

/// Nothing of other routes.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let is_program = |row: &&Row| matches!(row.key.method, Method::Mechanism(Mechanism::Count(_)));
    let rows: Vec<&Row> = bill.rows.iter().filter(is_program).collect();
    let rows: Vec<&Row> = rows
        .into_iter()
        .filter(|row| row.figures().is_some())
        .collect();
    let unit = figure::unit_per_item(bill);
    let mut sections = vec![Section::table(
        format!("{}, {unit}", bill.order.program.join(" ")),
        costs(&rows),
    )];
    sections.extend(rows.iter().filter_map(|row| {
        let profile = row.profile.as_ref()?;
        let title = format!("By way into the kernel: {}, {unit}", row.key);
        Some(Section::table(title, entries(profile)))
    }));
    sections
}

fn costs(rows: &[&Row]) -> Table {
    let mut table = Table::default();
    table.each(rows, Column::left("system"), |row| {
        row.key.system.to_string()
    });
    table.each(rows, Column::left("kernel").wrapping(), |row| {
        figure::optional(row.key.kernel.as_deref())
    });
    table.each(rows, Column::right("total"), |row| figure::cost_of(row));
    for (part, name) in [
        (Part::UserSpace, "user"),
        (Part::Kernel, "kernel"),
        (Part::Hypervisor, "hypervisor"),
    ] {
        table.each(rows, Column::right(name), |row| {
            of_profile(row, |profile| profile.cost_of(part))
        });
    }
    table.each(rows, Column::right("toll of Xen").rank(3), |row| {
        let toll = row.tolls().iter().find(|toll| toll.name == XEN);
        figure::optional(toll.map(|toll| figure::cost(toll.cost_per_page())))
    });
    table.each(rows, Column::right("of it interrupts").rank(2), |row| {
        of_profile(row, |profile| profile.per_page.in_interrupts.unwrap_or(0.0))
    });
    table.each(rows, Column::right("of it REP").rank(1), |row| {
        of_profile(row, |profile| profile.per_page.rep_iterations)
    });
    table.each(rows, Column::right("spread"), |row| {
        let spread = row.figures().and_then(|figures| figures.spread);
        figure::optional(spread.map(spread_of))
    });
    table
}

/// A share as percent, with as many decimals as it takes to see it.
fn spread_of(spread: f64) -> String {
    let decimals = if spread < 1e-3 { 4 } else { 1 };
    figure::fixed(100.0 * spread, decimals) + " %"
}

fn of_profile(row: &Row, of: impl Fn(&Profile) -> f64) -> String {
    match row.profile.as_ref().map(of) {
        None | Some(0.0) => NONE.to_owned(),
        Some(cost) => figure::cost(cost),
    }
}

fn entries(profile: &Profile) -> Table {
    let total = profile.cost_per_page();
    let entries = profile.entries.iter();
    let large = entries.filter(|entry| entry.cost_per_page.abs() >= total * LEAST_SHARE);
    let shown: Vec<_> = large.take(MOST).collect();
    let mut table = Table::default();
    table.each(&shown, Column::left("way").wrapping(), |entry| {
        entry.name.clone()
    });
    table.each(&shown, Column::right("cost"), |entry| {
        figure::cost(entry.cost_per_page)
    });
    table.each(&shown, Column::right("share"), |entry| {
        figure::share(entry.cost_per_page, total)
    });
    table
}

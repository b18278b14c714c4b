//! How many pages a second each mechanism populates.

use pagetoll_bill::row::{Interval, Rate};
use pagetoll_bill::{Bill, Role, Row};

use super::{axes, gain, gain_title, has_rates, is_own, published, selftest};
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// The rates, beside those that others published, and beside the kernel's own test.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    if !has_rates(bill) {
        return Vec::new();
    }
    vec![
        Section::table(
            "Pages populated in a second, all vCPUs together",
            table(bill),
        ),
        published::section(bill),
        selftest::section(bill),
    ]
}

fn table(bill: &Bill) -> Table {
    let rows: Vec<&Row> = bill.rows.iter().filter(|row| is_own(row)).collect();
    let mut table = Table::default();
    let cell = |row: &&Row| match row.why_unavailable() {
        Some(reason) => table.unavailable(reason),
        None => rate(row),
    };
    let rates: Vec<_> = rows.iter().map(cell).collect();
    axes::label_with_roles(&mut table, &rows);
    table.column(Column::right("pages/s"), rates);
    table.each(&rows, Column::right("90 % of samples").rank(2), |row| {
        interval(row, |rate| figure::fixed(rate, 0))
    });
    let ceiling = Column::right("of populated").rank(4);
    table.each(&rows, ceiling, |row| share_of_ceiling(&rows, row));
    let gains = Column::right(gain_title(&rows)).rank(6);
    table.each(&rows, gains, |row| gain(&rows, row));
    table
}

/// All pages in a second, the mean over the runs.
pub(super) fn pages_per_second(row: &Row) -> Option<f64> {
    Some(row.figures()?.rate?.pages_per_second)
}

pub(super) fn rate(row: &Row) -> String {
    match row.figures().and_then(|figures| figures.rate) {
        Some(Rate {
            pages_per_second: mean,
            stddev: Some(stddev),
        }) => format!("{mean:.0} +- {stddev:.0}"),
        Some(rate) => figure::fixed(rate.pages_per_second, 0),
        None => NONE.to_owned(),
    }
}

/// Where 90 % of the samples' rates lie.
pub(super) fn interval(row: &Row, written: impl Fn(f64) -> String) -> String {
    row.interval_of_rates().map_or_else(
        || NONE.to_owned(),
        |Interval { low, high }| format!("[{} .. {}]", written(low), written(high)),
    )
}

/// Of what touching pages that are there costs.
fn share_of_ceiling(rows: &[&Row], row: &Row) -> String {
    let is_ceiling =
        |other: &&&Row| other.role() == Role::Baseline && other.key.does_the_work_of(&row.key);
    let ceiling = rows.iter().copied().find(|other| is_ceiling(&other));
    figure::both(
        pages_per_second(row),
        ceiling.and_then(pages_per_second),
        figure::share,
    )
}

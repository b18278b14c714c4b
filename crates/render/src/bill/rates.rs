//! Rates: pages that each mechanism populates in a second.

use pagetoll_bill::row::{Interval, Rate};
use pagetoll_bill::{Bill, Evidence, Role, Row};

use super::axes;
use super::gain::{self, Gains};
use super::rows::{self, pages_per_second};
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// The rates of pagetoll's own rows. Nothing where no row has one.
pub(super) fn section(bill: &Bill) -> Section {
    let own = bill.rows.iter().filter(|row| rows::is_own(row));
    let billed = own.filter(|row| row.figures().is_some() && rows::has_rates(bill));
    let gains = Gains::new(bill, billed.collect());
    let title = "Pages populated in a second, all vCPUs together";
    Section::table(title, table(bill.evidence, &gains))
}

fn table(evidence: Evidence, gains: &Gains<'_>) -> Table {
    let mut table = Table::default();
    let rows = &gains.rows;
    axes::label_with_roles(&mut table, rows);
    table.each(rows, Column::right("pages/s"), |row| rate(row));
    let nine_in_ten = match evidence {
        Evidence::Measured => "90 % of bills",
        Evidence::Exact | Evidence::Modelled => "90 % of samples",
    };
    table.each(rows, Column::right(nine_in_ten).rank(2), |row| {
        interval(row, |rate| figure::fixed(rate, 0))
    });
    let ceiling = Column::right("of populated").rank(4);
    table.each(rows, ceiling, |row| share_of_ceiling(rows, row));
    table.each(rows, Column::right(gains.title()).rank(6), |row| {
        gains.cell(row)
    });
    if gains.has_batches() {
        table.each(rows, Column::right("gain of batch").rank(5), |row| {
            gain::text(gains.batch(row))
        });
    }
    table
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

/// The interval of 90 % of the samples' rates, or of other bills'.
pub(super) fn interval(row: &Row, written: impl Fn(f64) -> String) -> String {
    row.interval_of_rates().map_or_else(
        || NONE.to_owned(),
        |Interval { low, high }| format!("[{} .. {}]", written(low), written(high)),
    )
}

/// The rate as a share of that of touching pages that are there.
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

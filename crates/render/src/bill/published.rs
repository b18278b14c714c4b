//! Modelled rates beside those that others published.

use pagetoll_bill::row::PublishedRate;
use pagetoll_bill::row::error_of;
use pagetoll_bill::{Bill, Row};

use super::axes;
use super::rates::interval;
use super::rows::pages_per_second;
use crate::document::Section;
use crate::figure;
use crate::table::{Column, NONE, Table};

/// Each row that others published something of.
pub(super) fn section(bill: &Bill) -> Section {
    let all = bill.rows.iter().filter_map(Pair::new).collect::<Vec<_>>();
    let title = "Beside what was published, thousand pages in a second";
    Section::table(title, table(&all))
}

/// A modelled rate and a published one.
struct Pair<'a> {
    row: &'a Row,
    modelled: f64,
    published: PublishedRate,
}

impl<'a> Pair<'a> {
    fn new(row: &'a Row) -> Option<Self> {
        Some(Self {
            row,
            modelled: pages_per_second(row)?,
            published: row.published?,
        })
    }

    /// Nothing beside a rate that is none.
    fn error(&self, rate: f64) -> String {
        let published = self.published.pages_per_second;
        if rate > 0.0 && published > 0.0 {
            figure::percent(error_of(rate, published))
        } else {
            NONE.to_owned()
        }
    }
}

fn thousand(rate: f64) -> String {
    figure::fixed(rate / 1000.0, 0)
}

fn table(pairs: &[Pair<'_>]) -> Table {
    let mut table = Table::default();
    let rows: Vec<&Row> = pairs.iter().map(|pair| pair.row).collect();
    axes::label(&mut table, &rows);
    let mut add = |column: Column, cell: &dyn Fn(&Pair<'_>) -> String| {
        table.each(pairs, column, cell);
    };
    let inside = |pair: &Pair<'_>| {
        let published = pair.published.pages_per_second;
        let rates = pair.row.interval_of_rates();
        let is_inside = rates.is_some_and(|i| (i.low..=i.high).contains(&published));
        if is_inside { "yes" } else { "no" }.to_owned()
    };
    let kind = |pair: &Pair<'_>| {
        let fitted = pair.published.fitted;
        if fitted { "calibration" } else { "prediction" }.to_owned()
    };
    let law = |pair: &Pair<'_>| pair.published.scalability;
    add(Column::right("published"), &|pair| {
        thousand(pair.published.pages_per_second)
    });
    add(Column::right("modelled"), &|pair| thousand(pair.modelled));
    add(Column::right("90 % of samples").rank(2), &|pair| {
        interval(pair.row, thousand)
    });
    add(Column::right("error").rank(7), &|pair| {
        pair.error(pair.modelled)
    });
    add(Column::left("inside").rank(3), &inside);
    add(Column::left("counts as").rank(6), &kind);
    add(Column::right("scalability law").rank(1), &|pair| {
        figure::optional(law(pair).map(thousand))
    });
    add(Column::right("its error").rank(0), &|pair| {
        figure::optional(law(pair).map(|rate| pair.error(rate)))
    });
    table
}

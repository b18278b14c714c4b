//! A bill as a document: which table shows which rows.
//!
//! That follows from what the bill holds. Rows of memory shapes have a line for each shape; where there are rates,
//! they are compared; the others are costs of mechanisms. Sections without content are not printed.

mod axes;
mod baselines;
mod checks;
mod costs;
mod dirty;
mod discards;
mod gain;
mod header;
mod kernels;
mod limits;
mod migrations;
mod missing;
mod places;
mod profile;
mod program;
mod provenance;
mod published;
mod rates;
mod restores;
mod rows;
mod safety;
mod selftest;
mod shapes;
mod summary;
mod tolls;
mod user_space;
mod vcpus;

use pagetoll_bill::{Bill, Figures, Route, Row};

use crate::document::{Document, Length, Section};
use crate::setting;
use crate::subject::Detail;

/// Rows that a document shows: more are not read, and each is compared with the others.
const MOST_ROWS: usize = 1000;

/// The bill as a document.
pub(crate) fn document(bill: &Bill, detail: Detail) -> Document {
    let verdict = summary::verdict(bill);
    match shortened(bill) {
        Some(first) => shown(&first, verdict, detail),
        None => shown(bill, verdict, detail),
    }
}

/// The bill with its first rows only, which it says; `None` where it is short enough.
fn shortened(bill: &Bill) -> Option<Bill> {
    let first = bill.rows.get(..MOST_ROWS)?;
    let all = bill.rows.len();
    let note = format!("the first {MOST_ROWS} of {all} rows are shown; json and csv have all");
    (all > MOST_ROWS).then(|| Bill {
        notes: bill.notes.iter().cloned().chain([note]).collect(),
        ..rows::with_rows(bill, first.to_vec())
    })
}

fn shown(bill: &Bill, verdict: String, detail: Detail) -> Document {
    let mut sections = Vec::new();
    match detail {
        Detail::Short => sections.push(Section::facts("", dirty::loss(bill).into_iter().collect())),
        _ => sections.push(summary::section(bill, verdict)),
    }
    if detail == Detail::Page {
        let curves = vcpus::sections(bill);
        // Rows of many vCPUs cost many times more, which the curves show: bars on one scale would be too short to be seen.
        let length = match curves.is_empty() {
            true => Length::Amount,
            false => Length::OwnShare,
        };
        sections.extend(curves);
        sections.push(tolls::bars(bill, length));
    }
    sections.extend([
        Section::facts("", header::facts(bill)),
        limits::section(bill),
    ]);
    if bill.route != Route::Dirty {
        sections.extend(shapes::sections(bill, detail));
    }
    sections.extend([
        rates::section(bill),
        published::section(bill),
        selftest::section(bill),
    ]);
    sections.extend(restores::sections(bill, detail));
    sections.extend(dirty::sections(bill, detail));
    sections.extend(discards::sections(bill));
    sections.extend(migrations::sections(bill, detail));
    sections.extend(costs::sections(bill));
    sections.extend(program::sections(bill));
    sections.push(user_space::section(bill));
    sections.push(missing::section(bill));
    sections.extend(kernels::sections(bill));
    sections.push(places::section(bill));
    sections.push(tolls::section(bill, detail));
    sections.extend(profile::sections(bill, detail));
    sections.push(baselines::section(bill));
    sections.push(checks::section(bill));
    sections.push(Section::list("Notes", notes(bill)));
    sections.extend(provenance::sections(bill, detail));
    Document {
        title: format!(
            "{} on {}: {}",
            bill.route,
            bill.backend,
            bill.route.summary()
        ),
        sections,
    }
}

/// The bill's own notes, and the meaning of the spreads that occur.
fn notes(bill: &Bill) -> Vec<String> {
    let runs = bill.order.runs;
    let figures = || bill.rows.iter().filter_map(Row::figures);
    let deviation = figures()
        .any(|figures| figures.stddev.is_some())
        .then(|| format!("a +- b: the mean and the standard deviation of {runs} runs"));
    let is_of_runs = |figures: &Figures| figures.interval.is_some() && !figures.runs.is_empty();
    let interval = figures().any(is_of_runs).then(|| {
        let on = match setting::busy(bill) {
            Some(_) => "on a host as busy",
            None => "on an idle host",
        };
        format!("a (b to c), or [b .. c]: the median of {runs} runs; of other bills of this order {on}, nine in ten are in between")
    });
    bill.notes
        .iter()
        .cloned()
        .chain(deviation)
        .chain(interval)
        .collect()
}

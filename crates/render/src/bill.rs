//! A bill as a document: which table shows which rows.
//!
//! That follows from what the bill holds. Rows of memory shapes have a line for each shape; where there are rates,
//! they are compared; the others are costs of mechanisms. Sections without content are not printed.

mod axes;
mod baselines;
mod checks;
mod costs;
mod header;
mod limits;
mod places;
mod profile;
mod provenance;
mod published;
mod rates;
mod safety;
mod selftest;
mod shapes;
mod summary;
mod tolls;
mod user_space;

use pagetoll_bill::{Bill, Operation, Role, Row};

use crate::document::{Document, Section};
use crate::figure;
use crate::subject::Detail;

use rates::pages_per_second;

pub(crate) use header::{host_load, stack};

/// Rows that a document shows: more are not read, and each is compared with the others.
const MOST_ROWS: usize = 1000;

/// The bill as a document.
pub(crate) fn document(bill: &Bill, detail: Detail) -> Document {
    let verdict = summary::verdict(bill);
    match shortened(bill) {
        Some(shown) => of_shown(&shown, verdict, detail),
        None => of_shown(bill, verdict, detail),
    }
}

/// The bill with its first rows only, which it says; `None` where it is short enough.
fn shortened(bill: &Bill) -> Option<Bill> {
    let first = bill.rows.get(..MOST_ROWS)?;
    let all = bill.rows.len();
    let note = format!("the first {MOST_ROWS} of {all} rows are shown; json and csv have all");
    (all > MOST_ROWS).then(|| Bill {
        schema: bill.schema,
        route: bill.route,
        backend: bill.backend,
        backend_reason: bill.backend_reason.clone(),
        unit: bill.unit,
        evidence: bill.evidence,
        stack: bill.stack.clone(),
        order: bill.order.clone(),
        rows: first.to_vec(),
        notes: bill.notes.iter().cloned().chain([note]).collect(),
        provenance: bill.provenance.clone(),
    })
}

fn of_shown(bill: &Bill, verdict: String, detail: Detail) -> Document {
    let mut sections = Vec::new();
    if detail == Detail::Page {
        sections.extend([summary::section(bill, verdict), tolls::bars(bill)]);
    }
    sections.extend([
        Section::facts("", header::facts(bill)),
        limits::section(bill),
    ]);
    sections.extend(shapes::sections(bill, detail));
    sections.extend(rates::sections(bill));
    sections.extend(costs::sections(bill));
    sections.push(user_space::section(bill));
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

/// The bill's own notes, and what `+-` means where it occurs.
fn notes(bill: &Bill) -> Vec<String> {
    let mut figures = bill.rows.iter().filter_map(Row::figures);
    let has_deviation = figures.any(|figures| figures.stddev.is_some());
    let deviation = has_deviation.then(|| {
        let runs = bill.order.runs;
        format!("a +- b: the mean and the standard deviation of {runs} runs")
    });
    bill.notes.iter().cloned().chain(deviation).collect()
}

/// Whether the bill has rates: then its rows are compared by them.
fn has_rates(bill: &Bill) -> bool {
    let mut figures = bill.rows.iter().filter_map(Row::figures);
    figures.any(|figures| figures.rate.is_some())
}

/// Whether the row is one of pagetoll's own measurements; the others are those of the kernel's selftest.
fn is_own(row: &Row) -> bool {
    row.key.operation != Operation::DemandPagingTest
}

/// The rows of mechanisms, without shapes of memory, without baselines and without what user space sees.
fn mechanism_rows(bill: &Bill) -> impl Iterator<Item = &Row> {
    bill.rows.iter().filter(|row| {
        let measured = match row.role() {
            Role::Before | Role::After | Role::Alternative => true,
            Role::Observed | Role::Baseline => false,
        };
        measured && row.key.folio.is_none() && is_own(row)
    })
}

/// The row that another is compared with: of the mechanism that the fix replaces, in the same setting, at its smallest
/// batch.
fn reference<'a>(rows: &[&'a Row], row: &Row) -> Option<&'a Row> {
    let before = rows
        .iter()
        .copied()
        .filter(|other| other.role() == Role::Before && other.key.does_the_work_of(&row.key));
    let billed = before.filter(|other| other.cost().is_some());
    billed.min_by_key(|other| other.key.batch)
}

/// How many times less `row` costs than its [`reference`], or how many times its rate is more.
fn gain(rows: &[&Row], row: &Row) -> String {
    let reference = reference(rows, row);
    if reference.is_some_and(|reference| reference.key == row.key) {
        return "reference".to_owned();
    }
    let rate = reference.and_then(pages_per_second);
    if rate.is_some() {
        return figure::both(rate, pages_per_second(row), figure::gain);
    }
    figure::both(row.cost(), reference.and_then(Row::cost), figure::gain)
}

/// The unit of a cost of one item: `ns/page of a vCPU`.
fn unit(bill: &Bill) -> String {
    let several = bill.rows.iter().any(|row| row.key.vcpus.is_some());
    figure::unit_per_item(bill) + if several { " of a vCPU" } else { "" }
}

/// The title of a column that compares with what the fix replaces: `gain over emulate`.
fn gain_title(rows: &[&Row]) -> String {
    let before = rows.iter().filter(|row| row.role() == Role::Before);
    match in_order(before.map(|row| row.key.method)).as_slice() {
        [] => "gain".to_owned(),
        [one] => format!("gain over {one}"),
        _ => "gain over before".to_owned(),
    }
}

/// Each once, in the order of the first occurrence.
pub(crate) fn in_order<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique
}

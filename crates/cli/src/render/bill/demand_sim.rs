//! Modelled demand paging: rates beside published ones, and which line, lock or queue the time goes to.

use pagetoll_bill::cost::published::error_of;
use pagetoll_bill::{Bill, Interval, Row};

use super::super::document::Section;
use super::super::figure::{self, NONE};
use super::super::table::{Align, Table};

/// Items of a row that are named.
const NAMED: usize = 4;

/// The rates, what was published, and shares of time.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let mut sections = vec![Section::table(
        "Pages paged in for each second, all vCPUs together",
        rates(bill),
    )];
    let published = published(bill);
    if !published.rows.is_empty() {
        let title = "Beside what was published, thousand pages for each second";
        sections.push(Section::table(title, published));
    }
    let title = format!(
        "Where a page's time goes, {} of a vCPU",
        figure::unit_per_item(bill)
    );
    sections.push(Section::table(title, shares(bill)));
    sections
}

/// What rows begin with.
const LABELS: [(&str, Align); 4] = [
    ("mechanism", Align::Left),
    ("vCPUs", Align::Right),
    ("batch", Align::Right),
    ("readers", Align::Right),
];

fn table(columns: &[(&'static str, Align)]) -> Table {
    Table::new(LABELS.iter().chain(columns).copied())
}

fn labels(row: &Row) -> impl Iterator<Item = String> {
    let optional = |n: Option<u32>| n.map_or_else(|| NONE.to_owned(), |n| n.to_string());
    [
        row.mechanism.clone(),
        optional(row.vcpus),
        row.batch.to_string(),
        optional(row.readers),
    ]
    .into_iter()
}

fn rates(bill: &Bill) -> Table {
    let mut table = table(&[("pages/s", Align::Right), ("90 % of samples", Align::Right)]);
    for row in &bill.rows {
        let rate = row.pages_per_second.unwrap_or_default();
        let interval = interval(row, |rate| format!("{rate:.0}"));
        table.row(labels(row).chain([format!("{rate:.0}"), interval]));
    }
    table
}

/// Where 90 % of the samples' rates lie.
fn interval(row: &Row, word: impl Fn(f64) -> String) -> String {
    row.interval.map_or_else(String::new, |interval| {
        let Interval { low, high } = rates_of(row, interval);
        format!("[{} .. {}]", word(low), word(high))
    })
}

/// The rates of an interval of costs.
fn rates_of(row: &Row, costs: Interval) -> Interval {
    let rate = |nanos: f64| f64::from(row.vcpus.unwrap_or(1)) * 1e9 / nanos;
    Interval {
        low: rate(costs.high),
        high: rate(costs.low),
    }
}

fn published(bill: &Bill) -> Table {
    let mut table = table(&[
        ("published", Align::Right),
        ("modelled", Align::Right),
        ("90 % of samples", Align::Right),
        ("error", Align::Right),
        ("inside", Align::Left),
        ("counts as", Align::Left),
        ("scalability law", Align::Right),
        ("its error", Align::Right),
    ]);
    let thousand = |rate: f64| format!("{:.0}", rate / 1000.0);
    let percent = |error: f64| format!("{:.0} %", 100.0 * error);
    for row in &bill.rows {
        let (Some(other), Some(rate)) = (row.published, row.pages_per_second) else {
            continue;
        };
        let rates = row.interval.map(|costs| rates_of(row, costs));
        let inside = rates.is_some_and(|i| (i.low..=i.high).contains(&other.pages_per_second));
        let error = |rate| percent(error_of(rate, other.pages_per_second));
        table.row(
            labels(row).chain([
                thousand(other.pages_per_second),
                thousand(rate),
                interval(row, thousand),
                error(rate),
                if inside { "yes" } else { "no" }.to_owned(),
                if other.fitted {
                    "calibration"
                } else {
                    "prediction"
                }
                .to_owned(),
                other.scalability.map(thousand).unwrap_or_default(),
                other.scalability.map(error).unwrap_or_default(),
            ]),
        );
    }
    table
}

/// Kinds of items, by what their names begin with, also behind `reader`.
const KINDS: [&str; 3] = ["line ", "lock ", "queue "];

fn shares(bill: &Bill) -> Table {
    let mut table = table(&[
        ("time", Align::Right),
        ("lines", Align::Right),
        ("locks", Align::Right),
        ("queues", Align::Right),
        ("the largest", Align::Left),
    ]);
    for row in &bill.rows {
        let cost = row.cost_per_page.unwrap_or_default();
        let of = |kind: &str| {
            let items = row.tolls.iter().filter(|toll| {
                let name = toll.name.strip_prefix("reader ").unwrap_or(&toll.name);
                name.starts_with(kind)
            });
            figure::share(items.map(pagetoll_bill::Toll::cost_per_page).sum(), cost)
        };
        let cells = [figure::cost(cost)].into_iter().chain(KINDS.map(of));
        table.row(labels(row).chain(cells).chain([largest(row, cost)]));
    }
    table
}

/// The largest items of a row.
fn largest(row: &Row, cost: f64) -> String {
    let mut tolls: Vec<_> = row.tolls.iter().collect();
    tolls.sort_by(|a, b| b.cost_per_page().total_cmp(&a.cost_per_page()));
    let named: Vec<_> = tolls
        .iter()
        .take(NAMED)
        .map(|toll| {
            format!(
                "{} {}",
                toll.name,
                figure::share(toll.cost_per_page(), cost)
            )
        })
        .collect();
    named.join(", ")
}

//! Dirty tracking: what is lost, a line for each mechanism with its phases, and the events that each covers.

use pagetoll_bill::row::median;
use pagetoll_bill::row::{Coverage, EventCoverage, Folio, PageEvent};
use pagetoll_bill::{Bill, Check, Operation, Route, Row};

use crate::document::{Fact, Section};
use crate::figure;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// Phases, and their columns.
const PHASES: [(Operation, &str); 8] = [
    (Operation::Arm, "arm"),
    (Operation::FirstWrite, "first write"),
    (Operation::Harvest, "harvest"),
    (Operation::ReArm, "re-arm"),
    (Operation::WriteAgain, "write again"),
    (Operation::Disarm, "disarm"),
    (Operation::RewriteUntracked, "rewrite, untracked"),
    (Operation::RewriteTracked, "rewrite, tracked"),
];
const FOOTNOTE: &str = "Medians of the runs, where there are any. Writes are the guest's time; rewrite: round after round, without \
     tracking and while pages are reported and armed again.";

/// The first line of a bill: pages that were written and not reported, of all that were looked for.
pub(super) fn loss(bill: &Bill) -> Option<Fact> {
    if bill.route != Route::Dirty {
        return None;
    }
    let checks: Vec<(&Row, &Check)> = lost_checks(bill).collect();
    let tried: u64 = checks.iter().map(|(_, check)| check.tried).sum();
    let failed: u64 = checks.iter().map(|(_, check)| check.failed).sum();
    let losers = checks.iter().filter(|(_, check)| check.failed > 0);
    let losers = unique(losers.map(|(row, _)| place(row)));
    let caught = checks
        .iter()
        .filter(|(_, check)| check.control_failed > Some(0));
    let value = match (checks.len(), failed) {
        (0, _) => "nothing was looked for".to_owned(),
        (all, 0) => format!(
            "0 of {tried} written pages; {} of {all} negative controls lost pages, and were caught",
            caught.count()
        ),
        _ => format!("{failed} of {tried} written pages: {}", losers.join(", ")),
    };
    Some(Fact::new("lost", value))
}

fn lost_checks(bill: &Bill) -> impl Iterator<Item = (&Row, &Check)> {
    let rows = bill.rows.iter();
    rows.flat_map(|row| row.checks.iter().map(move |check| (row, check)))
        .filter(|(_, check)| check.name.starts_with("lost"))
}

fn place(row: &Row) -> String {
    match row.key.folio {
        Some(folio) => format!("{} ({folio})", row.key.method),
        None => row.key.method.to_string(),
    }
}

/// Nothing of a bill of another route.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    if bill.route != Route::Dirty {
        return Vec::new();
    }
    let settings = unique(bill.rows.iter().map(Setting::new));
    let unit = figure::unit_per_item(bill);
    let mut sections = Vec::new();
    for setting in &settings {
        let table = phases(bill, setting);
        if !table.rows.is_empty() {
            sections.push(Section::table(
                format!("{}, {unit}", setting.title()),
                table,
            ));
        }
    }
    sections.push(Section::table(
        "Events beside a guest's writes: pages lost of those changed",
        events(bill),
    ));
    sections
}

/// Setting in which mechanisms are compared.
#[derive(Clone, PartialEq, Eq)]
struct Setting {
    folio: Option<Folio>,
    vcpus: Option<u32>,
    kernel: Option<String>,
}

impl Setting {
    fn new(row: &Row) -> Self {
        Self {
            folio: row.key.folio,
            vcpus: row.key.vcpus,
            kernel: row.key.kernel.clone(),
        }
    }

    fn title(&self) -> String {
        let folio = self.folio.map(|folio| format!("Pages of {folio}"));
        let vcpus = self.vcpus.map(|vcpus| format!("{vcpus} vCPUs"));
        let parts = [folio, vcpus, self.kernel.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => "Phases".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// A line for each mechanism that has figures here.
fn phases(bill: &Bill, setting: &Setting) -> Table {
    let here = |row: &&Row| Setting::new(row) == *setting && row.figures().is_some();
    let rows: Vec<&Row> = bill.rows.iter().filter(here).collect();
    let methods = unique(rows.iter().map(|row| row.key.method));
    let mut table = Table::default();
    table.each(&methods, Column::left("mechanism"), ToString::to_string);
    for (phase, title) in PHASES {
        table.each(&methods, Column::right(title), |method| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.key.method == *method && row.key.operation == phase);
            row.map_or_else(|| NONE.to_owned(), |row| middle(row))
        });
    }
    if !table.rows.is_empty() {
        table.footnote(FOOTNOTE);
    }
    table
}

/// The median of the runs; the cost where there are none.
fn middle(row: &Row) -> String {
    let Some(figures) = row.figures() else {
        return NONE.to_owned();
    };
    let cost = median(&figures.runs).unwrap_or(figures.cost_per_page);
    figure::fixed(cost, if cost.abs() < 10.0 { 2 } else { 1 })
}

/// A line for each event that happened to some mechanism, with a column for each mechanism.
fn events(bill: &Bill) -> Table {
    let tracked: Vec<(&Row, &EventCoverage)> = bill
        .rows
        .iter()
        .flat_map(|row| {
            let tracked = row.tracked.iter();
            tracked.flat_map(move |tracked| tracked.events.iter().map(move |event| (row, event)))
        })
        .collect();
    let methods = unique(tracked.iter().map(|(row, _)| row.key.method));
    let named = unique(tracked.iter().map(|(_, event)| event.event));
    let mut table = Table::default();
    table.each(&named, Column::left("event"), ToString::to_string);
    for method in methods {
        table.each(
            &named,
            Column::left(method.to_string()),
            |event: &PageEvent| {
                let of = tracked
                    .iter()
                    .filter(|(row, tried)| row.key.method == method && tried.event == *event);
                coverage(of.map(|(_, event)| *event))
            },
        );
    }
    if !table.rows.is_empty() {
        table.footnote("-: the event did not happen; json has the reason.");
    }
    table
}

/// Coverage on memory of all shapes: one on which pages are lost is enough.
fn coverage<'e>(events: impl Iterator<Item = &'e EventCoverage>) -> String {
    let (mut tried, mut lost) = (0, 0);
    for event in events.filter(|event| event.coverage != Coverage::Untested) {
        tried += event.tried;
        lost += event.lost;
    }
    match (tried, lost) {
        (0, _) => NONE.to_owned(),
        (_, 0) => "covered".to_owned(),
        _ => format!("LOST {lost} of {tried}"),
    }
}

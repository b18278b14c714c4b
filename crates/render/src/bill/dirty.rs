//! Dirty tracking: what is lost, a line for each mechanism with its phases, and the events that each covers.

use std::iter;

use pagetoll_bill::row::median;
use pagetoll_bill::row::{Coverage, EventCoverage, Folio, PageEvent, Rewriting, Span};
use pagetoll_bill::{Bill, Check, Operation, Route, Row};

use crate::document::{Fact, Line, Mark, Plot, Scale, Section, Spot};
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

/// Phases, their columns, and the order in which these are left out where the table is too wide.
const PHASES: [(Operation, &str, u8); 12] = [
    (Operation::Arm, "arm", 2),
    (Operation::FirstWrite, "first write", 3),
    (Operation::Harvest, "harvest", 6),
    (Operation::HarvestSparse, "harvest, sparse", 4),
    (Operation::ReArm, "re-arm", 4),
    (Operation::ReArmSparse, "re-arm, sparse", 4),
    (Operation::ReArmBeside, "re-arm, beside", 3),
    (Operation::WriteBeside, "write, beside", 3),
    (Operation::WriteAgain, "write again", 7),
    (Operation::Disarm, "disarm", 1),
    (Operation::RewriteUntracked, "rewrite, untracked", 0),
    (Operation::RewriteTracked, "rewrite, tracked", 5),
];
const FOOTNOTE: &str = "Medians of the runs, where there are any. Writes are the guest's time; sparse: one page in eight, here and there; beside: the same while the guest writes tracked pages, and these writes; rewrite: round after round, without \
     tracking and while pages are reported and armed again.";

/// Distances between places that are named on a plot's axis, at most.
const MARKS: f64 = 8.0;
/// Lines of a plot: as many as there are colours.
const MOST_LINES: usize = 8;

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
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    if bill.route != Route::Dirty {
        return Vec::new();
    }
    let settings = unique(bill.rows.iter().map(Setting::new));
    let unit = figure::unit_per_item(bill);
    let mut sections = Vec::new();
    for setting in &settings {
        if detail == Detail::Page {
            sections.extend(plots(bill, setting, &unit));
        }
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
    for (phase, title, rank) in PHASES {
        table.each(&methods, Column::right(title).rank(rank), |method| {
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

/// Rounds of guests that rewrite tracked pages over time, and the harvests beside them, a line for each mechanism.
fn plots(bill: &Bill, setting: &Setting, unit: &str) -> Vec<Section> {
    let here = bill.rows.iter().filter(|row| Setting::new(row) == *setting);
    let rewriting = here.filter_map(|row| Some((row, row.rewriting.as_ref()?)));
    let rewriting: Vec<(&Row, &Rewriting)> = rewriting.take(MOST_LINES).collect();
    let plotted = |title: &str, spans: fn(&Rewriting) -> &[Span]| {
        let lines = rewriting
            .iter()
            .map(|(row, rewriting)| line(row, spans(rewriting)));
        let plot = over_time(lines.filter(|line| !line.spots.is_empty()).collect(), unit)?;
        Some(Section::plot(format!("{}: {title}", setting.title()), plot))
    };
    let sections = [
        plotted(
            "Rounds that rewrite all pages while they are tracked",
            |of| &of.rounds,
        ),
        plotted(
            "Harvests beside them, each with the arming after it",
            |of| &of.harvests,
        ),
    ];
    sections.into_iter().flatten().collect()
}

/// Spans of a row by their starts, in ms, as the cost of a page.
fn line(row: &Row, spans: &[Span]) -> Line {
    let spot = |span: &Span| Spot {
        at: span.start / 1e6,
        value: span.nanoseconds / row.pages.get().max(1) as f64,
        band: None,
        published: None,
        steps: false,
    };
    Line {
        label: row.key.method.to_string(),
        spots: spans.iter().map(spot).collect(),
    }
}

/// A plot over the time of all lines; none where nothing takes any.
fn over_time(lines: Vec<Line>, unit: &str) -> Option<Plot> {
    let spots = || lines.iter().flat_map(|line| &line.spots);
    let last = spots().map(|spot| spot.at).fold(0.0, f64::max);
    (last > 0.0).then(|| Plot {
        unit: unit.to_owned(),
        axis: "ms since rewriting began".into(),
        marks: marks(last),
        scale: Scale::Linear,
        lines,
    })
}

/// Multiples of 1, 2 or 5 times a power of ten, from 0 to the first that is not below the last place.
fn marks(last: f64) -> Vec<Mark> {
    let least = last / MARKS;
    let power = 10.0_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power);
    let mark = |number: u32| {
        let at = step * f64::from(number);
        Mark {
            at,
            name: figure::short(at),
        }
    };
    let is_before = |number: &u32| step * f64::from(number - 1) < last;
    iter::once(0)
        .chain((1..).take_while(is_before))
        .map(mark)
        .collect()
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
    for (rank, method) in (0..=u8::MAX).rev().zip(methods) {
        table.each(
            &named,
            Column::left(method.to_string()).rank(rank),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_few_round_numbers_and_ends_behind_the_last_place() {
        let named = |last| -> Vec<f64> { marks(last).iter().map(|mark| mark.at).collect() };
        assert_eq!(
            named(40.0),
            [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]
        );
        assert_eq!(named(250.5), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]);
        assert_eq!(named(0.09), [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]);
    }
}

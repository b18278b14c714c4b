//! Migrated guests: a line for each mechanism with its times, its pages, and what they are composed to.

use pagetoll_bill::row::{Migrated, Round, Sent};
use pagetoll_bill::{Bill, Operation, Route, Row};

use crate::document::{Line, Mark, Plot, Scale, Section, Spot};
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, Table};

/// Lines of a plot: as many as there are colours.
const MOST_LINES: usize = 8;
/// The times, their columns, and those of what they are composed to.
const TIMES: [(Operation, &str, &str); 3] = [
    (Operation::Migration, "total", "composed total"),
    (Operation::Downtime, "downtime", "composed downtime"),
    (Operation::Stall, "stall", "composed stall"),
];
/// Share by which a time and pages may differ from what they are composed to.
const TIMES_AGREE: f64 = 0.2;
const PAGES_AGREE: f64 = 0.05;
const FOOTNOTE: &str = "Medians of the runs. Total: from the order until every page is at the destination and the guest runs \
     there. Downtime: the guest is stopped. Stall: downtime, and what the guest's writes took more than before. Longest: of one \
     burst of writes, or the downtime. Again: pages that had been sent before. Waited for: pages that the guest was at before \
     they were there. Composed: from bills of dirty tracking and demand paging, and a guest that writes nothing.";

/// Nothing of a bill of another route.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    if bill.route != Route::Migrate {
        return Vec::new();
    }
    let migrations = migrations(bill);
    let mut table = table(&migrations);
    if !table.rows.is_empty() {
        table.footnote(FOOTNOTE);
    }
    let mut sections = vec![Section::list(
        "Which leads, and where the whole is not its parts",
        leads(&migrations)
            .into_iter()
            .chain(differences(&migrations))
            .collect(),
    )];
    if detail == Detail::Page {
        sections.extend(plot(&migrations));
    }
    sections.push(Section::table("Migrations of one guest, ms", table));
    sections
}

/// The rows of one mechanism.
struct Migration<'a> {
    times: [Option<&'a Row>; 3],
    name: String,
}

impl<'a> Migration<'a> {
    fn migrated(&self, time: usize) -> Option<&'a Migrated> {
        self.times[time]?.figures()?.migrated.as_ref()
    }

    /// True of a time that is composed to one within its interval.
    fn is_within_interval(&self, time: usize) -> bool {
        let of_row = || {
            let figures = self.times[time]?.figures()?;
            let composed = figures.migrated.as_ref()?.composed?;
            let interval = figures.interval?;
            let pages = self.times[time]?.pages.get() as f64;
            Some((interval.low..=interval.high).contains(&(composed / pages)))
        };
        of_row().unwrap_or(false)
    }

    fn sent(&self) -> Option<&'a Sent> {
        self.migrated(0)?.sent.as_ref()
    }
}

fn migrations(bill: &Bill) -> Vec<Migration<'_>> {
    let with_figures = bill.rows.iter().filter(|row| row.figures().is_some());
    let whole = with_figures.filter(|row| row.key.operation == Operation::Migration);
    let of_row = |row: &Row| {
        let at = |operation| {
            let mut key = row.key.clone();
            key.operation = operation;
            bill.rows.iter().find(|row| row.key == key)
        };
        Migration {
            times: TIMES.map(|(operation, ..)| at(operation)),
            name: row.key.method.to_string(),
        }
    };
    whole.map(of_row).collect()
}

fn table(migrations: &[Migration<'_>]) -> Table {
    let mut table = Table::default();
    table.each(migrations, Column::left("mechanism"), |one| {
        one.name.clone()
    });
    for (time, (_, title, composed)) in TIMES.into_iter().enumerate() {
        table.each(migrations, Column::right(title), |one| {
            figure::optional(one.migrated(time).map(|migrated| millis(migrated.median)))
        });
        table.each(migrations, Column::right(composed).rank(2), |one| {
            let composed = one.migrated(time).and_then(|migrated| migrated.composed);
            figure::optional(composed.map(millis))
        });
    }
    table.each(migrations, Column::right("longest").rank(4), |one| {
        let longest = one.migrated(2).and_then(|migrated| migrated.longest);
        figure::optional(longest.map(millis))
    });
    add_pages(&mut table, migrations);
    table
}

fn add_pages(table: &mut Table, migrations: &[Migration<'_>]) {
    let pages = |value: Option<f64>| figure::optional(value.map(|pages| figure::fixed(pages, 0)));
    table.each(migrations, Column::right("pages sent"), |one| {
        pages(one.sent().map(|sent| sent.pages))
    });
    table.each(migrations, Column::right("composed pages").rank(1), |one| {
        pages(one.sent().and_then(|sent| sent.composed))
    });
    table.each(migrations, Column::right("again").rank(5), |one| {
        pages(one.sent().map(|sent| sent.again))
    });
    table.each(migrations, Column::right("rounds").rank(3), |one| {
        figure::optional(one.sent().map(|sent| sent.rounds.len()))
    });
    table.each(migrations, Column::right("waited for").rank(4), |one| {
        pages(one.sent().map(|sent| sent.waited_for))
    });
}

fn millis(nanos: f64) -> String {
    let millis = nanos / 1e6;
    figure::fixed(millis, if millis < 10.0 { 2 } else { 1 })
}

/// The mechanism of the least of each time.
fn leads(migrations: &[Migration<'_>]) -> Vec<String> {
    let least = |(time, (_, name, _)): (usize, (Operation, &str, &str))| {
        let times = migrations
            .iter()
            .filter_map(|one| Some((one.migrated(time)?.median, &one.name)));
        let (time, leader) = times.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!("least {name}: {leader}, {} ms", millis(time)))
    };
    TIMES.into_iter().enumerate().filter_map(least).collect()
}

/// Figures that differ from what they are composed to by more than they should.
fn differences(migrations: &[Migration<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in migrations {
        for (time, (_, name, _)) in TIMES.into_iter().enumerate().take(2) {
            let Some(migrated) = one.migrated(time) else {
                continue;
            };
            let differs = difference(migrated.median, migrated.composed, TIMES_AGREE);
            lines.extend(differs.map(|differs| {
                let within = match one.is_within_interval(time) {
                    true => ", which is within its interval",
                    false => "",
                };
                format!("{}, {name}: {differs}{within}", one.name)
            }));
        }
        if let Some(sent) = one.sent() {
            let differs = difference(sent.pages, sent.composed, PAGES_AGREE);
            lines.extend(differs.map(|differs| format!("{}, pages sent: {differs}", one.name)));
        }
    }
    lines
}

fn difference(measured: f64, composed: Option<f64>, agree: f64) -> Option<String> {
    let share = composed.filter(|composed| *composed > 0.0)?;
    let share = measured / share - 1.0;
    (share.abs() > agree).then(|| {
        let direction = if share > 0.0 { "more" } else { "less" };
        format!("{} {direction} than composed", figure::percent(share.abs()))
    })
}

/// Pages sent over time, a line for each mechanism with a ring at the end of each round.
fn plot(migrations: &[Migration<'_>]) -> Option<Section> {
    let with_rounds = migrations
        .iter()
        .filter(|one| one.sent().is_some_and(|sent| !sent.rounds.is_empty()));
    let lines: Vec<Line> = with_rounds.filter_map(line).take(MOST_LINES).collect();
    let last = lines
        .iter()
        .flat_map(|line| line.spots.iter().map(|spot| spot.at))
        .fold(0.0, f64::max);
    (last > 0.0).then(|| {
        Section::plot(
            "Pages sent, by rounds of the run in the middle; rings: the end of a round",
            Plot {
                unit: "pages".into(),
                axis: "ms since the order to migrate".into(),
                marks: (0..=4)
                    .map(|part| last * f64::from(part) / 4.0)
                    .map(|at| Mark {
                        at,
                        name: figure::short(at),
                    })
                    .collect(),
                scale: Scale::Linear,
                lines,
            },
        )
    })
}

fn line(one: &Migration<'_>) -> Option<Line> {
    let spot = |at: f64, pages: u64, steps| Spot {
        at: at / 1e6,
        value: pages as f64,
        band: None,
        published: None,
        steps,
    };
    let rounds: &[Round] = &one.sent()?.rounds;
    let mut sent = 0;
    let mut spots = Vec::new();
    for round in rounds {
        spots.push(spot(round.begun, sent, false));
        sent += round.pages;
        spots.push(spot(round.ended, sent, true));
    }
    Some(Line {
        label: one.name.clone(),
        spots,
    })
}

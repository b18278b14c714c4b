//! Restored guests: a line for each mechanism in each setting, with its three boundaries and the memory that it keeps.

use pagetoll_bill::row::{KeptMemory, PageCache, Restored};
use pagetoll_bill::{Bill, Operation, Route, Row, Unit};

use super::gain::{self, Gains};
use crate::document::{Line, Mark, Plot, Scale, Section, Spot};
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, Table};
use crate::unique::unique;

/// Lines of a plot: as many as there are colours.
const MOST_LINES: usize = 8;

/// The boundaries, and the columns of their medians and 95th percentiles.
const BOUNDARIES: [(Operation, &str, &str); 3] = [
    (
        Operation::FirstInstruction,
        "first instruction",
        "first p95",
    ),
    (Operation::SetResident, "working set", "set p95"),
    (Operation::LastPage, "last page", "last p95"),
];
/// Footnote of times, and of counts.
const MEASURED: &str = "Median and 95th percentile of all guests of all runs. Kept: PSS once the working set is there and nothing \
     works in the background; its own: cannot be read again from the image; filled untouched: share of the image in memory of \
     a guest that touched nothing.";
const COUNTED: &str = "Each boundary counts from the order to restore, for each page that it is about: those of the image, or of the \
     working set. Kept: PSS once the working set is there; its own: cannot be read again from the image; filled untouched: share \
     of the image in memory of a guest that touched nothing.";

/// Nothing of a bill of another route.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    if bill.route != Route::Restore {
        return Vec::new();
    }
    let restores = restores(bill);
    let settings = unique(restores.iter().map(Restore::setting));
    let leads = settings
        .iter()
        .flat_map(|setting| leads(bill, &restores, *setting));
    let mut sections = vec![Section::list("Which leads", leads.collect())];
    if detail == Detail::Page {
        sections.extend(
            settings
                .iter()
                .filter_map(|setting| plot(&restores, *setting)),
        );
    }
    for (number, setting) in (1..).zip(&settings) {
        let unit = match bill.unit {
            Unit::Nanoseconds => "ms".to_owned(),
            Unit::Instructions => figure::unit_per_item(bill),
        };
        let title = format!(
            "{}: {unit} since the order to restore, and memory of a guest",
            described(*setting)
        );
        let mut table = table(&in_setting(&restores, *setting), bill.unit);
        if number == settings.len() {
            table.footnote(match bill.unit {
                Unit::Nanoseconds => MEASURED,
                Unit::Instructions => COUNTED,
            });
        }
        sections.push(Section::table(title, table));
    }
    sections
}

/// The rows of one mechanism in one setting.
struct Restore<'a> {
    boundaries: [Option<&'a Row>; 3],
    any: &'a Row,
}

/// Setting in which mechanisms are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    cache: Option<PageCache>,
    clones: Option<u32>,
    vcpus: Option<u32>,
}

impl<'a> Restore<'a> {
    fn new(any: &'a Row, rows: &[&'a Row]) -> Self {
        let at = |operation| {
            let mut key = any.key.clone();
            key.operation = operation;
            rows.iter().copied().find(|row| row.key == key)
        };
        Self {
            boundaries: BOUNDARIES.map(|(operation, ..)| at(operation)),
            any,
        }
    }

    fn setting(&self) -> Setting {
        let key = &self.any.key;
        Setting {
            cache: key.cache,
            clones: key.clones,
            vcpus: key.vcpus,
        }
    }

    /// `uffd at batch 16`.
    fn name(&self) -> String {
        let key = &self.any.key;
        match key.batch {
            1 => key.method.to_string(),
            batch => format!("{} at batch {batch}", key.method),
        }
    }

    /// Predicted time of the working set, in nanoseconds.
    fn predicted(&self) -> Option<f64> {
        let row = self.boundaries[1]?;
        let cost = row.figures()?.restored?.predicted?;
        Some(cost * row.pages.get() as f64)
    }

    fn restored(&self, boundary: usize) -> Option<&'a Restored> {
        self.boundaries[boundary]?.figures()?.restored.as_ref()
    }
}

/// Rows with figures, those of the same key but for its operation together.
fn restores(bill: &Bill) -> Vec<Restore<'_>> {
    let with_figures = |row: &&Row| row.figures().is_some();
    let rows: Vec<&Row> = bill.rows.iter().filter(with_figures).collect();
    let begins = |row: &&Row| row.key.operation == Operation::FirstInstruction;
    let first = rows.iter().copied().filter(begins);
    first.map(|first| Restore::new(first, &rows)).collect()
}

fn in_setting<'r, 'a>(restores: &'r [Restore<'a>], setting: Setting) -> Vec<&'r Restore<'a>> {
    restores
        .iter()
        .filter(|one| one.setting() == setting)
        .collect()
}

fn table(restores: &[&Restore<'_>], unit: Unit) -> Table {
    let mut table = Table::default();
    table.each(restores, Column::left("mechanism"), |one| {
        one.any.key.method.to_string()
    });
    let batch = |one: &&Restore<'_>| one.any.key.batch.to_string();
    table.each(restores, Column::right("batch"), batch);
    for (boundary, (_, title, p95)) in BOUNDARIES.into_iter().enumerate() {
        if unit == Unit::Instructions {
            let cost = |one: &&Restore<'_>| one.boundaries[boundary].map(figure::cost_of);
            table.each(restores, Column::right(title), |one| {
                figure::optional(cost(one))
            });
            continue;
        }
        table.each(restores, Column::right(title), |one| {
            time(one, boundary, |restored| restored.median)
        });
        table.each(restores, Column::right(p95).rank(0), |one| {
            time(one, boundary, |restored| restored.p95)
        });
    }
    table.each(restores, Column::right("predicted set").rank(6), |one| {
        figure::optional(one.predicted().map(millis))
    });
    add_memory(&mut table, restores);
    table
}

fn time(one: &Restore<'_>, boundary: usize, value: fn(&Restored) -> f64) -> String {
    figure::optional(
        one.restored(boundary)
            .map(|restored| millis(value(restored))),
    )
}

/// Adds what a guest waited for at most, kept and used.
fn add_memory(table: &mut Table, restores: &[&Restore<'_>]) {
    let at_last =
        |one: &Restore<'_>, value: fn(&Restored) -> Option<f64>| one.restored(2).and_then(value);
    let kept = |one: &&Restore<'_>| one.restored(1).and_then(|restored| restored.kept);
    table.each(restores, Column::right("longest stall").rank(5), |one| {
        figure::optional(at_last(one, |restored| restored.longest_stall).map(millis))
    });
    table.each(restores, Column::right("kept MiB").rank(7), |one| {
        figure::optional(kept(one).map(|kept| mebibytes(kept.pss)))
    });
    table.each(restores, Column::right("its own").rank(4), |one| {
        figure::optional(kept(one).map(|kept| mebibytes(kept.private)))
    });
    let untouched = Column::right("filled untouched").rank(3);
    table.each(restores, untouched, |one| {
        let filled = one
            .restored(1)
            .and_then(|restored| restored.filled_untouched);
        figure::optional(filled.map(figure::percent))
    });
    let storage = Column::right("from storage, MiB").rank(2);
    table.each(restores, storage, |one| {
        figure::optional(at_last(one, |restored| restored.read_from_storage).map(mebibytes))
    });
    table.each(restores, Column::right("CPU, ms").rank(1), |one| {
        figure::optional(at_last(one, |restored| restored.cpu_time).map(millis))
    });
}

fn millis(nanos: f64) -> String {
    let millis = nanos / 1e6;
    figure::fixed(millis, if millis < 10.0 { 2 } else { 1 })
}

fn mebibytes(bytes: f64) -> String {
    figure::fixed(bytes / f64::from(1 << 20), 1)
}

/// Leaders of a setting: one sentence.
fn leads(bill: &Bill, restores: &[Restore<'_>], setting: Setting) -> Option<String> {
    let here = in_setting(restores, setting);
    let first = BOUNDARIES.into_iter().enumerate();
    let mut parts: Vec<String> = first
        .filter_map(|(boundary, (_, name, _))| {
            Some(format!("{name}: {}", leader(bill, &here, boundary)?))
        })
        .collect();
    let least = |name, bytes: fn(KeptMemory) -> f64| {
        let kept = here
            .iter()
            .filter_map(|one| Some((bytes(one.restored(1)?.kept?), one.name())));
        let (bytes, mechanism) = kept.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!("{name}: {mechanism}, {} MiB", mebibytes(bytes)))
    };
    parts.extend(least("least kept", |kept| kept.pss));
    parts.extend(least("least of its own", |kept| kept.private));
    (!parts.is_empty()).then(|| format!("{}: {}", described(setting), parts.join("; ")))
}

/// `warm, 16 guests of 1 vCPU`.
fn described(setting: Setting) -> String {
    let number = |count: u32, noun: &str| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    let guests = number(setting.clones.unwrap_or(1), "guest");
    let vcpus = number(setting.vcpus.unwrap_or(1), "vCPU");
    let cache = setting
        .cache
        .map(|cache| format!("{cache}, "))
        .unwrap_or_default();
    format!("{cache}{guests} of {vcpus}")
}

/// The mechanism that is there first, and how far it is ahead of the next one of another name.
fn leader(bill: &Bill, here: &[&Restore<'_>], boundary: usize) -> Option<String> {
    let timed = here.iter().filter_map(|one| {
        let row = one.boundaries[boundary]?;
        Some((row.cost()?, row, one))
    });
    let mut timed: Vec<_> = timed.collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (cost, row, leader) = timed.first()?;
    let amount = match bill.unit {
        Unit::Nanoseconds => millis(cost * row.pages.get() as f64) + " ms",
        Unit::Instructions => format!("{} {}", figure::cost(*cost), figure::unit_per_item(bill)),
    };
    let next = timed
        .iter()
        .find(|(_, _, other)| other.any.key.method != leader.any.key.method);
    let Some((_, next, other)) = next else {
        return Some(format!("{}, {amount}", leader.name()));
    };
    let gains = Gains::new(bill, vec![row, next]);
    let ahead = gain::text(gains.between(row, next));
    Some(format!(
        "{}, {amount}, before {} by {ahead}",
        leader.name(),
        other.name()
    ))
}

/// Pages in memory over time, a line for each mechanism, with its boundaries; at the largest batch.
fn plot(restores: &[Restore<'_>], setting: Setting) -> Option<Section> {
    let here = in_setting(restores, setting);
    let largest = |one: &&&Restore<'_>| {
        let same = here
            .iter()
            .filter(|other| other.any.key.method == one.any.key.method);
        same.map(|other| other.any.key.batch).max() == Some(one.any.key.batch)
    };
    let lines: Vec<Line> = here
        .iter()
        .filter(largest)
        .filter_map(|one| line(one))
        .take(MOST_LINES)
        .collect();
    let times = || {
        lines
            .iter()
            .flat_map(|line| line.spots.iter().map(|spot| spot.at))
    };
    let (first, last) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    (lines.len() > 1 && last > first).then(|| {
        let title = format!(
            "Pages in memory, {}; rings: first instruction, working set, last page",
            described(setting)
        );
        Section::plot(
            title,
            Plot {
                unit: "pages".into(),
                axis: "ms since the order to restore".into(),
                marks: marks(first, last),
                scale: Scale::Logarithmic,
                lines,
            },
        )
    })
}

/// Powers of ten between two times in ms, and both ends.
fn marks(first: f64, last: f64) -> Vec<Mark> {
    let mark = |at: f64| Mark {
        at,
        name: figure::short(at),
    };
    let powers = (-3..=9).map(|power| 10.0_f64.powi(power));
    let between = powers.filter(|at| *at > first * 1.5 && *at < last / 1.5);
    let mut marks = vec![mark(first)];
    marks.extend(between.map(mark));
    marks.push(mark(last));
    marks
}

/// Pages from the first instruction on, until all are there, and the boundaries.
fn line(one: &Restore<'_>) -> Option<Line> {
    let resident = &one.boundaries[2]?.resident;
    let spot = |at: f64, value: u64, steps| Spot {
        at: at / 1e6,
        value: value as f64,
        band: None,
        published: None,
        steps,
    };
    let first = one.restored(0)?.median;
    let most = resident.iter().map(|moment| moment.pages).max()?;
    let full = resident.iter().position(|moment| moment.pages == most)?;
    let moments = resident[..=full].iter();
    let mut spots: Vec<Spot> = moments
        .filter(|moment| moment.nanoseconds > first)
        .map(|moment| spot(moment.nanoseconds, moment.pages, false))
        .collect();
    let at = |time: f64| {
        let before = resident
            .iter()
            .take_while(|moment| moment.nanoseconds <= time);
        before.last().map_or(0, |moment| moment.pages)
    };
    let times = (0..3).filter_map(|boundary| one.restored(boundary));
    spots.extend(times.map(|restored| spot(restored.median, at(restored.median), true)));
    spots.sort_by(|a, b| a.at.total_cmp(&b.at));
    Some(Line {
        label: one.name(),
        spots,
    })
}

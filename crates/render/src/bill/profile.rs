//! Profiles of rows: whose instructions they were, what is slow among them, and in which functions.

use pagetoll_bill::profile::{Events, Function, Part, Profile};
use pagetoll_bill::{Bill, Route, Row};

use crate::document::{Calls, Section};
use crate::figure;
use crate::subject::Detail;
use crate::table::{Column, NONE, Table};

/// Functions that are shown of a row: those that took most.
const MOST: usize = 12;

type Event = (&'static str, fn(&Events) -> f64);

/// In the order in which they are shown; those that no row has are left out.
const EVENTS: [Event; 10] = [
    ("exceptions", |events| events.exceptions),
    ("calls", |events| events.calls),
    ("CR3 writes", |events| events.cr3_writes),
    ("CR4 writes", |events| events.cr4_writes),
    ("INVLPG", |events| events.invlpg),
    ("INVPCID", |events| events.invpcid),
    ("serialising", |events| events.serialising),
    ("locked", |events| events.locked.unwrap_or(0.0)),
    ("memory accesses", |events| events.memory_accesses),
    ("REP iterations", |events| events.rep_iterations),
];

/// A row with its profile.
struct Profiled<'a> {
    row: &'a Row,
    profile: &'a Profile,
}

/// Nothing where no row has a profile.
pub(super) fn sections(bill: &Bill, detail: Detail) -> Vec<Section> {
    let profiled = bill.rows.iter().filter_map(|row| {
        let profile = row.profile.as_ref()?;
        Some(Profiled { row, profile })
    });
    let profiled: Vec<_> = profiled.collect();
    let unit = figure::unit_per_item(bill);
    let parts = format!("Whose instructions they were, {unit}");
    let events = figure::per_item("What is slow among them, number", bill);
    let mut sections = Vec::new();
    if bill.route != Route::Count {
        sections.push(Section::table(parts, parts_of(&profiled)));
    }
    sections.push(Section::table(events, events_of(&profiled)));
    for one in &profiled {
        let title = format!("{}, {unit}", one.row.key);
        let functions = functions_of(one, detail);
        if detail == Detail::Page {
            let title = format!("Who called what: {}", one.row.key);
            let calls = Calls {
                unit: unit.clone(),
                functions: one.profile.calls.clone(),
            };
            sections.push(Section::calls(title, calls).folded());
            sections.push(
                Section::table(format!("Functions: {}, {unit}", one.row.key), functions).folded(),
            );
        } else {
            sections.push(Section::table(title, functions));
        }
    }
    sections
}

fn keyed(rows: &[Profiled<'_>]) -> Table {
    let mut table = Table::default();
    table.each(rows, Column::left("row").wrapping(), |one| {
        one.row.key.to_string()
    });
    table
}

fn parts_of(rows: &[Profiled<'_>]) -> Table {
    let mut table = keyed(rows);
    table.each(rows, Column::right("billed"), |one| {
        figure::optional(one.row.cost().map(figure::cost))
    });
    table.each(rows, Column::right("executed"), |one| {
        figure::cost(one.profile.cost_per_page())
    });
    for &part in Part::ALL {
        table.each(rows, Column::right(part.name()), |one| {
            number(one.profile.cost_of(part), figure::cost)
        });
    }
    table
}

fn events_of(rows: &[Profiled<'_>]) -> Table {
    let mut table = keyed(rows);
    for (name, of) in EVENTS {
        table.each(rows, Column::right(name), |one| {
            number(of(&one.profile.per_page), figure::cost)
        });
    }
    table
}

fn functions_of(of: &Profiled<'_>, detail: Detail) -> Table {
    let most = match detail {
        Detail::Short => MOST,
        Detail::Full | Detail::Page => usize::MAX,
    };
    let all = of.profile.functions.iter();
    let shown: Vec<&Function> = all.take(most).collect();
    let mut table = Table::default();
    table.each(&shown, Column::left("function").wrapping(), |one| {
        one.name.clone()
    });
    table.each(&shown, Column::left("part"), |one| one.part.to_string());
    table.each(&shown, Column::right("cost"), |one| {
        figure::cost(one.cost_per_page)
    });
    let total = of.profile.cost_per_page();
    table.each(&shown, Column::right("share"), |one| {
        figure::share(one.cost_per_page, total)
    });
    table.each(&shown, Column::right("REP iterations").rank(1), |one| {
        number(one.rep_iterations, figure::cost)
    });
    table
}

/// The cell of a figure that most rows have none of.
fn number(value: f64, written: fn(f64) -> String) -> String {
    if value == 0.0 {
        NONE.to_owned()
    } else {
        written(value)
    }
}

//! Two bills, compared, as a document.

use pagetoll_bill::diff::{Change, Diff, RowKey, TollChange, Verdict};
use pagetoll_bill::{Bill, Evidence};

use super::document::{Document, Section};
use super::figure::{self, NONE};
use super::table::{Align, Table};
use crate::words::word;

/// Tolls that are shown of a row: those that changed most.
const TOLLS: usize = 5;

/// The comparison as a document.
pub(super) fn document((old, new): (&Bill, &Bill), diff: &Diff) -> Document {
    let count = |verdict| diff.with(verdict).count();
    let title = format!(
        "{} on {}: {} dearer, {} cheaper, {} the same",
        diff.route,
        word(new.backend),
        count(Verdict::Dearer),
        count(Verdict::Cheaper),
        count(Verdict::Same)
    );
    let changed = [
        ("Dearer", Verdict::Dearer),
        ("Cheaper", Verdict::Cheaper),
        ("Undecided", Verdict::Undecided),
    ];
    let mut sections = vec![Section::facts("", header((old, new), diff))];
    for (title, verdict) in changed {
        let changes: Vec<_> = diff.with(verdict).collect();
        let unit = figure::unit_per_item(new);
        sections.push(Section::table(format!("{title}, {unit}"), rows(&changes)));
        if verdict != Verdict::Undecided {
            let title = format!("{title}: the tolls that changed most, {unit}");
            sections.push(Section::table(title, tolls(&changes)));
        }
    }
    sections.push(Section::list("Not compared", unmatched(diff)));
    Document { title, sections }
}

fn header((old, new): (&Bill, &Bill), diff: &Diff) -> Vec<(String, String)> {
    let stack = |bill: &Bill| -> String {
        let parts = bill
            .stack
            .iter()
            .map(|(name, version)| format!("{name} {version}"));
        parts.collect::<Vec<_>>().join(", ")
    };
    let percent = diff.tolerance * 100.0;
    let rule = match diff.evidence {
        Evidence::Exact => format!("exact counts; equal within {percent} %"),
        Evidence::Measured => format!(
            "measured; different when a permutation test of the runs says so (p at most {}) and by more than {percent} % and the noise of both",
            pagetoll_bill::diff::SIGNIFICANT
        ),
        Evidence::Modelled => "modelled; different when the intervals do not meet".to_owned(),
    };
    vec![
        ("old".to_owned(), stack(old)),
        ("new".to_owned(), stack(new)),
        ("compared".to_owned(), rule),
    ]
}

fn rows(changes: &[&Change]) -> Table {
    let mut table = Table::new([
        ("operation", Align::Left),
        ("mechanism", Align::Left),
        ("where", Align::Left),
        ("old", Align::Right),
        ("new", Align::Right),
        ("change", Align::Right),
        ("p", Align::Right),
    ]);
    for change in changes {
        let p = change
            .p_value
            .map_or_else(|| NONE.to_owned(), |p| format!("{p:.4}"));
        table.row([
            change.key.operation.clone(),
            change.key.mechanism.clone(),
            place(&change.key),
            figure::cost(change.old),
            figure::cost(change.new),
            percent(change.old, change.new),
            p,
        ]);
    }
    table
}

/// What tells a row from others of its operation and mechanism.
fn place(key: &RowKey) -> String {
    let batch = (key.folio.is_none()).then(|| format!("batch {}", key.batch));
    let parts = [
        key.folio.clone(),
        batch,
        Some(word(key.system)),
        key.kernel.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn percent(old: f64, new: f64) -> String {
    if old > 0.0 {
        format!("{:+.1} %", 100.0 * (new - old) / old)
    } else {
        NONE.to_owned()
    }
}

fn tolls(changes: &[&Change]) -> Table {
    let mut table = Table::new([
        ("operation", Align::Left),
        ("where", Align::Left),
        ("toll", Align::Left),
        ("old", Align::Right),
        ("new", Align::Right),
        ("difference", Align::Right),
    ]);
    let cost = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), figure::cost);
    for change in changes {
        let telling = |toll: &&TollChange| toll.difference() != 0.0;
        for toll in change.tolls.iter().filter(telling).take(TOLLS) {
            table.row([
                change.key.operation.clone(),
                place(&change.key),
                toll.name.clone(),
                cost(toll.old),
                cost(toll.new),
                format!("{:+.1}", toll.difference()),
            ]);
        }
    }
    table
}

fn unmatched(diff: &Diff) -> Vec<String> {
    let told = diff.unmatched.iter().map(|row| {
        let RowKey {
            operation,
            mechanism,
            ..
        } = &row.key;
        format!(
            "{operation} by {mechanism}, {}: {}",
            place(&row.key),
            row.reason
        )
    });
    told.collect()
}

//! Tolls and crossings of a row that changed.

use pagetoll_bill::crossing::is_trap;
use pagetoll_bill::{System, row::RowKey};
use pagetoll_compare::diff::{Change, Diff, PerPage, Verdict};

use crate::figure;
use crate::table::{Column, Table};

/// Items that are shown of a row: those that changed most.
const MOST: usize = 5;
/// The least difference of counts that are shown with four decimals.
const LEAST_CROSSINGS: f64 = 5e-5;

/// The tolls of rows that regressed or improved. Where a row has one toll, that is its cost again; there the kinds of
/// crossings say more.
pub(super) fn tolls(diff: &Diff) -> Table {
    let mut table = items();
    for change in diff.changes.iter().filter(has_moved_cost) {
        let kinds: Vec<_> = change
            .crossings
            .iter()
            .filter(|kind| has_moved(kind))
            .collect();
        if change.tolls.len() < 2 && !kinds.is_empty() {
            for kind in kinds.into_iter().take(MOST) {
                let named = named("crossing", kind);
                table.row(cells(&change.key, &named, 4));
            }
            continue;
        }
        let differs = |toll: &&PerPage| figure::cost(toll.difference()) != figure::cost(0.0);
        for toll in change.tolls.iter().filter(differs).take(MOST) {
            table.row(cells(&change.key, toll, 1));
        }
    }
    table
}

/// The functions of rows that regressed or improved.
pub(crate) fn functions(diff: &Diff) -> Table {
    let mut table = items();
    for change in diff.changes.iter().filter(has_moved_cost) {
        let differs = |one: &&PerPage| figure::cost(one.difference()) != figure::cost(0.0);
        for function in change.functions.iter().filter(differs).take(MOST) {
            table.row(cells(&change.key, function, 1));
        }
    }
    table
}

fn has_moved_cost(change: &&Change) -> bool {
    matches!(change.verdict, Verdict::Regressed | Verdict::Improved)
}

/// Traps and hypercalls of a page; of systems that make none, all crossings.
pub(super) fn crossings(diff: &Diff) -> Table {
    let mut table = items();
    for change in &diff.changes {
        for sum in sums(change).iter().filter(|sum| has_moved(sum)) {
            table.row(cells(&change.key, sum, 4));
        }
    }
    table
}

fn sums(change: &Change) -> Vec<PerPage> {
    let Some(all) = &change.crossings_per_page else {
        return Vec::new();
    };
    match change.key.system {
        System::XenPvDom0 | System::XenPvDomU | System::XenPv32Dom0 | System::Native => {
            let traps = traps(change);
            let hypercalls = hypercalls(all, &traps);
            vec![traps, hypercalls]
        }
        System::KvmGuest => vec![all.clone()],
    }
}

fn traps(change: &Change) -> PerPage {
    let traps = || change.crossings.iter().filter(|kind| is_trap(&kind.name));
    let sum = |side: fn(&PerPage) -> Option<f64>| Some(traps().filter_map(side).sum());
    PerPage {
        name: "traps".to_owned(),
        old: sum(|kind| kind.old),
        new: sum(|kind| kind.new),
    }
}

/// Crossings that are no traps, as a bill has them. The sum of the kinds is more: a hypercall that Xen preempted is among
/// them once for each time that it was entered.
fn hypercalls(all: &PerPage, traps: &PerPage) -> PerPage {
    let less = |all: Option<f64>, traps: Option<f64>| Some(all? - traps?);
    PerPage {
        name: "hypercalls".to_owned(),
        old: less(all.old, traps.old),
        new: less(all.new, traps.new),
    }
}

fn has_moved(kind: &PerPage) -> bool {
    kind.difference().abs() >= LEAST_CROSSINGS
}

fn named(what: &str, kind: &PerPage) -> PerPage {
    PerPage {
        name: format!("{what} {}", kind.name),
        ..kind.clone()
    }
}

fn items() -> Table {
    Table::new([
        Column::left("row").wrapping(),
        Column::left("item").wrapping(),
        Column::right("old"),
        Column::right("new"),
        Column::right("difference").rank(1),
    ])
}

fn cells(key: &RowKey, item: &PerPage, decimals: usize) -> [String; 5] {
    let number = |value: Option<f64>| figure::optional(value.map(|v| figure::fixed(v, decimals)));
    [
        key.to_string(),
        item.name.clone(),
        number(item.old),
        number(item.new),
        figure::signed(item.difference(), decimals),
    ]
}

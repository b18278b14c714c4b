//! From what guests report to rows: three of each line, one for each boundary. Pure.
//!
//! The cost of a page is that of everything until the boundary over the pages that it is about: those of the image, or of the
//! working set.

use pagetoll_bill::route::Restore as Of;
use pagetoll_bill::route::lab::Restore as Mechanism;
use pagetoll_bill::row::{KeptMemory, PageCache, Restored};
use pagetoll_bill::{Check, Crossings, Figures, Operation, Row, RowKey, System, Toll, Unavailable};
use pagetoll_protocol::report::{Restore, RestorePart};
use pagetoll_pv::rows::per;
use pagetoll_units::Pages;

use super::Line;
use super::guest::{Purpose, RestoreRun};

/// Boundary of a restore: its operation in bills.
const BOUNDARIES: [Operation; 3] = [
    Operation::FirstInstruction,
    Operation::SetResident,
    Operation::LastPage,
];
/// Share of the image that may be in memory of a lazy guest that touched nothing.
const UNTOUCHED: f64 = 0.01;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Three rows for each line.
pub(super) fn rows(pages: Pages, lines: &[Line], found: &[RestoreRun]) -> Vec<Row> {
    let of_line = |&line: &Line| BOUNDARIES.map(|boundary| row(line, boundary, pages, found));
    lines.iter().flat_map(of_line).collect()
}

fn row(line: Line, boundary: Operation, pages: Pages, found: &[RestoreRun]) -> Row {
    let set = repeats(found, line).map(|restore| restore.set).next();
    let pages = match (boundary, set) {
        (Operation::SetResident, Some(set)) => Pages(set),
        _ => pages,
    };
    let figures = figures(line, boundary, found);
    let checks = match (&figures, boundary) {
        (Ok(_), Operation::SetResident) => laziness(line, found).into_iter().collect(),
        (Ok(_), Operation::LastPage) => contents(line, found),
        _ => Vec::new(),
    };
    Row::new(key(line, boundary), pages, figures).with_checks(checks)
}

fn key(Line { mechanism, batch }: Line, boundary: Operation) -> RowKey {
    RowKey {
        batch,
        vcpus: Some(1),
        readers: has_reader(mechanism).then_some(1),
        cache: Some(PageCache::Warm),
        clones: Some(1),
        ..RowKey::new(boundary, mechanism, System::KvmGuest)
    }
}

const fn has_reader(mechanism: Mechanism) -> bool {
    match mechanism {
        Mechanism::Uffd | Mechanism::Replay | Mechanism::Continue | Mechanism::Hugetlb2m => true,
        Mechanism::Read
        | Mechanism::Map
        | Mechanism::MapWillneed
        | Mechanism::MapPopulate
        | Mechanism::KvmPreFault
        | Mechanism::Exit => false,
    }
}

fn figures(line: Line, boundary: Operation, found: &[RestoreRun]) -> Result<Figures, Unavailable> {
    let medians = found.iter().filter_map(|run| median(run, line));
    let medians: Vec<_> = medians.map(|(_, restore)| restore).collect();
    let Some(first) = medians.first() else {
        return Err(Unavailable(why_not(line, found)));
    };
    let cost = |restore: &&Restore| per(until(restore, boundary), about(restore, boundary));
    let figures = Figures::of_runs(medians.iter().map(cost).collect())?;
    let is_last = boundary == Operation::LastPage;
    let tolls = is_last.then(|| tolls(line.mechanism, first, figures.cost_per_page));
    Ok(Figures {
        crossings: is_last.then(|| crossings(line.mechanism, first)),
        tolls: tolls.unwrap_or_default(),
        restored: Some(restored(first, boundary)),
        ..figures
    })
}

fn why_not(line: Line, found: &[RestoreRun]) -> String {
    let mut lacking = found.iter().flat_map(|found| &found.unavailable);
    let lacking = lacking.find(|one| one.mechanism == line.mechanism && one.batch == line.batch);
    lacking.map_or_else(
        || "the guest did not bill it".to_owned(),
        |report| format!("the guest lacks {}", report.lacks),
    )
}

/// The parts of a restore up to a boundary.
fn parts(restore: &Restore, boundary: Operation) -> impl Iterator<Item = RestorePart> {
    let parts = [restore.to_first, restore.to_set, restore.to_last];
    let count = BOUNDARIES
        .iter()
        .take_while(|one| **one != boundary)
        .count();
    parts.into_iter().take(count + 1)
}

/// Instructions until a boundary.
fn until(restore: &Restore, boundary: Operation) -> u64 {
    parts(restore, boundary).map(|part| part.instructions).sum()
}

/// Pages that a boundary is about.
fn about(restore: &Restore, boundary: Operation) -> u64 {
    match boundary == Operation::SetResident {
        true => restore.set,
        false => restore.pages,
    }
}

fn is_of(line: Line, restore: &Restore) -> bool {
    (restore.mechanism, restore.batch) == (line.mechanism, line.batch)
}

/// The repeats of a line.
fn repeats(found: &[RestoreRun], line: Line) -> impl Iterator<Item = &Restore> {
    of_purpose(found, line, Purpose::Bill)
}

fn of_purpose(
    found: &[RestoreRun],
    line: Line,
    purpose: Purpose,
) -> impl Iterator<Item = &Restore> {
    let all = found.iter().flat_map(|run| &run.restores);
    all.filter(move |one| one.purpose == purpose && is_of(line, &one.restore))
        .map(|one| &one.restore)
}

/// The repeat that costs the median until the last page, and its place among all restores of the boot: all boundaries are its.
fn median(found: &RestoreRun, line: Line) -> Option<(usize, &Restore)> {
    let all = found.restores.iter().enumerate();
    let repeats = all.filter(|(_, one)| one.purpose == Purpose::Bill && is_of(line, &one.restore));
    let mut repeats: Vec<_> = repeats.map(|(place, one)| (place, &one.restore)).collect();
    repeats.sort_by_key(|(_, restore)| until(restore, Operation::LastPage));
    repeats.get(repeats.len() / 2).copied()
}

fn sum_of(restore: &Restore, count: fn(&RestorePart) -> u64) -> u64 {
    parts(restore, Operation::LastPage)
        .map(|part| count(&part))
        .sum()
}

/// Exits of the vCPU for each page of the image, and what came of them.
fn crossings(mechanism: Mechanism, restore: &Restore) -> Crossings {
    let handled = match mechanism == Mechanism::Exit {
        true => "exit-reported",
        false => "uffd-message",
    };
    let per_page = |count| per(sum_of(restore, count), restore.pages);
    let kinds = [
        ("vm-exit", per_page(|part| part.exits)),
        (handled, per_page(|part| part.faults)),
        ("thread-switch", per_page(|part| part.switches)),
    ];
    Crossings {
        per_page: kinds[0].1,
        by_kind: kinds
            .into_iter()
            .filter(|(_, count)| *count > 0.0)
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect(),
    }
}

/// Items of the last page's cost. Installing has no item where it wakes a thread, whose work would be in it.
fn tolls(mechanism: Mechanism, restore: &Restore, cost: f64) -> Vec<Toll> {
    let pages = restore.pages;
    let later = [restore.to_set, restore.to_last];
    let sum = |count: fn(&RestorePart) -> u64| later.iter().map(count).sum::<u64>();
    let mut tolls = vec![Toll::once(
        "before the first instruction",
        per(restore.to_first.instructions, pages),
    )];
    let item = |name, total: u64, calls: u64| {
        (total > 0).then(|| Toll::new(name, per(calls, pages), per(total, calls)))
    };
    let calls = sum(|part| part.calls);
    tolls.extend(item(
        "find-page",
        sum(|part| part.finding),
        sum(|part| part.faults),
    ));
    tolls.extend(item("read-source", sum(|part| part.reading), calls));
    tolls.extend(item("install", sum(|part| part.installing), calls));
    let rest = match (mechanism, has_reader(mechanism)) {
        (Mechanism::Exit, _) => "touch, exit-and-enter",
        (_, true) => "touch, install, deliver-and-wake",
        (_, false) => "touch, with its faults",
    };
    let priced = Toll::sum(&tolls);
    tolls.push(Toll::once(rest, cost - priced));
    tolls
}

fn restored(restore: &Restore, boundary: Operation) -> Restored {
    let total = until(restore, boundary) as f64;
    let is_set = boundary == Operation::SetResident;
    Restored {
        median: total,
        p95: total,
        kept: is_set.then(|| kept(&restore.to_set)),
        filled_untouched: is_set.then(|| per(restore.to_first.rss, restore.pages * PAGE)),
        ..Restored::default()
    }
}

fn kept(part: &RestorePart) -> KeptMemory {
    KeptMemory {
        pss: part.pss as f64,
        private: part.own as f64,
        page_cache: part.rss.saturating_sub(part.own) as f64,
    }
}

/// Pages of the memory that hold, or give the guest, something else; the control is an image that lacks one.
fn contents(line: Line, found: &[RestoreRun]) -> Vec<Check> {
    let sum = |purpose, count: fn(&Restore) -> u64| {
        of_purpose(found, line, purpose).map(count).sum::<u64>()
    };
    let check = |name, tried, failed| {
        let control = sum(Purpose::Control, failed);
        let [tried, failed] = [tried, failed].map(|count| sum(Purpose::Bill, count));
        Check::against_control(name, tried, failed, control)
    };
    let pages = |restore: &Restore| restore.pages;
    vec![
        check("content-in-guest", pages, |restore| restore.wrong_in_guest),
        check("content-on-host", pages, |restore| restore.wrong_on_host),
        check(
            "values-read",
            |restore| restore.parts,
            |restore| restore.misread,
        ),
    ]
}

/// A lazy mechanism leaves missing what is not touched; the same look at memory finds every page once all are touched.
fn laziness(line: Line, found: &[RestoreRun]) -> Option<Check> {
    if !Of::from(line.mechanism).is_lazy() {
        return None;
    }
    let filled = |restore: &Restore| {
        let filled = restore.to_first.rss / PAGE;
        match filled as f64 > UNTOUCHED * restore.pages as f64 {
            true => filled,
            false => 0,
        }
    };
    let pages = repeats(found, line).map(|restore| restore.pages).sum();
    let at_the_end = repeats(found, line).map(|restore| restore.to_last.rss / PAGE);
    Some(Check::against_control(
        "untouched-stays-missing",
        pages,
        repeats(found, line).map(filled).sum(),
        at_the_end.sum(),
    ))
}

/// The step whose code a row executed: until the last page, and the boundaries before it have none of their own.
pub(super) fn step_of(run: &RestoreRun, row: &Row) -> Option<usize> {
    if row.key.operation != Operation::LastPage {
        return None;
    }
    let line = Line {
        mechanism: Mechanism::try_from(row.key.method.mechanism()?).ok()?,
        batch: row.key.batch,
    };
    let (place, _) = median(run, line)?;
    Some(place)
}

#[cfg(test)]
mod tests;

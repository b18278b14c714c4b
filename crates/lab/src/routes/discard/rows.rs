//! From what guests report to rows: three of each line, of the calls, of what lies beside, and of what comes back. Pure.

use pagetoll_bill::route::Discard as Call;
use pagetoll_bill::row::{Backing, Cleared, Discarded, Found};
use pagetoll_bill::{
    Check, Crossings, Figures, Operation, Order, Row, RowKey, System, Toll, Unavailable,
};
use pagetoll_protocol::report::{Contents, Counted, Discard, DiscardMisplaced, DiscardSingle};
use pagetoll_pv::rows::per;
use pagetoll_units::Pages;

use super::guest::{CONTROL_PAGES, DiscardRun};

/// Operations of a line.
const OPERATIONS: [Operation; 3] = [
    Operation::Discard,
    Operation::TouchBeside,
    Operation::TouchAgain,
];
/// Parts of a repeat that the probe marks, in their order.
const MARKED: usize = 4;
/// Name of KVM's faults among crossings.
const FAULT: &str = "stage-2-fault";
/// Pages of a block of 2 MiB.
const BLOCK: u64 = 512;

/// Parameters of three rows.
#[derive(Clone, Copy)]
struct Line {
    backing: Backing,
    call: Call,
    /// Pages of a chunk.
    batch: u32,
}

/// Three rows for each call on memory of each backing, in chunks of each size.
pub(super) fn rows(order: &Order, backings: &[Backing], found: &[DiscardRun]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &backing in backings {
        for call in order.of::<Call>() {
            for &batch in &order.batches {
                let line = Line {
                    backing,
                    call,
                    batch,
                };
                rows.extend(OPERATIONS.map(|operation| row(line, operation, order, found)));
            }
        }
    }
    rows
}

fn row(line: Line, operation: Operation, order: &Order, found: &[DiscardRun]) -> Row {
    let key = RowKey {
        batch: line.batch,
        backing: Some(line.backing),
        ..RowKey::new(operation, line.call, System::KvmGuest)
    };
    let figures = figures(line, operation, found);
    let checks = match (&figures, operation) {
        (Ok(_), Operation::Discard) => checks(line, found),
        _ => Vec::new(),
    };
    Row::new(key, Pages(order.pages.get() / 2), figures).with_checks(checks)
}

fn figures(line: Line, operation: Operation, found: &[DiscardRun]) -> Result<Figures, Unavailable> {
    let medians = found
        .iter()
        .filter_map(|run| median(run, line, operation).map(|(_, repeat)| repeat));
    let medians: Vec<_> = medians.collect();
    let (Some(run), Some(first)) = (found.first(), medians.first()) else {
        return Err(Unavailable(why_not(line, found)));
    };
    let cost = |repeat: &&Discard| per(counted(repeat, operation).instructions, repeat.pages);
    let figures = Figures::of_runs(medians.iter().map(cost).collect())?;
    let is_call = operation == Operation::Discard;
    Ok(Figures {
        crossings: (!is_call).then(|| crossings(first, operation)),
        tolls: tolls(first, operation, figures.cost_per_page),
        discarded: is_call.then(|| discarded(line, first, run)),
        ..figures
    })
}

fn why_not(line: Line, found: &[DiscardRun]) -> String {
    let is_of_line = |of: (Call, Backing, u32)| of == (line.call, line.backing, line.batch);
    let mut lacking = found.iter().flat_map(|found| &found.unavailable);
    let lacking = lacking.find(|one| is_of_line((one.mechanism, one.backing, one.batch)));
    let Some(report) = lacking else {
        return "the guest did not bill it".to_owned();
    };
    match &report.errno {
        Some(errno) => format!(
            "{} fails with {errno}; {}",
            report.call,
            line.call.limit(line.backing)
        ),
        None => format!("the guest lacks {}", report.lacks),
    }
}

/// The repeats of a line, each with its place among all of the boot.
fn repeats(found: &DiscardRun, line: Line) -> impl Iterator<Item = (usize, &Discard)> {
    let of = move |one: &(usize, &Discard)| {
        let Discard {
            mechanism,
            backing,
            batch,
            ..
        } = one.1;
        (*mechanism, *backing, *batch) == (line.call, line.backing, line.batch)
    };
    found.discards.iter().enumerate().filter(of)
}

/// The repeat that costs the median of an operation.
fn median(found: &DiscardRun, line: Line, operation: Operation) -> Option<(usize, &Discard)> {
    let mut repeats: Vec<_> = repeats(found, line).collect();
    repeats.sort_by_key(|(_, repeat)| counted(repeat, operation).instructions);
    repeats.get(repeats.len() / 2).copied()
}

/// The part of a repeat that is an operation's.
fn counted(repeat: &Discard, operation: Operation) -> Counted {
    if operation == Operation::TouchBeside {
        repeat.beside
    } else if operation == Operation::TouchAgain {
        repeat.again
    } else {
        repeat.call
    }
}

/// Exits of a touch, without those of a guest to which all pages are mapped.
fn crossings(repeat: &Discard, operation: Operation) -> Crossings {
    let exits = counted(repeat, operation).exits;
    let faults = per(exits.saturating_sub(repeat.present.exits), repeat.pages);
    Crossings {
        per_page: faults,
        by_kind: [(FAULT.to_owned(), faults)].into(),
    }
}

/// Items of a cost: a touch of what was not discarded is split into that of a page which is there, and the rest.
fn tolls(repeat: &Discard, operation: Operation, cost_per_page: f64) -> Vec<Toll> {
    if operation != Operation::TouchBeside {
        return vec![Toll::once(operation.name(), cost_per_page)];
    }
    let touch = per(repeat.present.instructions, repeat.pages).min(cost_per_page);
    vec![
        Toll::once("touch", touch),
        Toll::once("what the discards took", cost_per_page - touch),
    ]
}

fn discarded(line: Line, repeat: &Discard, run: &DiscardRun) -> Discarded {
    let share = |bytes: u64| bytes as f64 / (repeat.pages * 4096) as f64;
    let (before, after) = (repeat.before, repeat.after);
    let gone = share(before.own.saturating_sub(after.own));
    // What is left of huge pages is not mapped, and is held all the same.
    let unsplit = gone * unsplit(line, repeat);
    let held = 1.0 - gone + unsplit;
    let later = share(after.lazy.saturating_sub(before.lazy)) + unsplit;
    let rss = share(before.rss.saturating_sub(after.rss));
    let single = single(run, line);
    let taken = single.and_then(|single| single.taken);
    let beside = taken.map(|taken| taken.saturating_sub(line.batch.into()));
    let found = found(repeat);
    Discarded {
        frees: Discarded::verdict(held, later),
        held,
        freed_later: later,
        rss,
        // Half of all page cache is of the pages beside.
        page_cache: (line.backing == Backing::PrivateFile).then(|| share(after.page_cache) / 2.0),
        taken_per_call: taken.map(|pages| pages as f64),
        beside_per_call: beside.map(|pages| pages as f64),
        faults_beside_per_call: single.map(|single| single.exits_beside as f64),
        found,
        cleared: match found {
            Found::Zeroes | Found::Mixed if rss < 0.5 => Cleared::Call,
            Found::Zeroes | Found::Mixed => Cleared::Touch,
            Found::Old | Found::File => Cleared::Never,
        },
        clearing: per(run.clearing.instructions, run.clearing.pages),
    }
}

/// Share of the memory that is gone from the VMM's tables and belongs to huge pages that are not split yet.
fn unsplit(line: Line, repeat: &Discard) -> f64 {
    if line.backing != Backing::Thp || u64::from(line.batch) >= BLOCK {
        return 0.0;
    }
    let waiting = repeat
        .after
        .deferred_splits
        .saturating_sub(repeat.before.deferred_splits);
    let blocks = 2 * repeat.pages / BLOCK;
    (waiting as f64 / blocks as f64).min(1.0)
}

fn single(run: &DiscardRun, line: Line) -> Option<&DiscardSingle> {
    let of = |one: &&DiscardSingle| {
        (one.mechanism, one.backing, one.batch) == (line.call, line.backing, line.batch)
    };
    run.singles.iter().find(of)
}

/// The content that all discarded pages have.
fn found(repeat: &Discard) -> Found {
    let contents = Contents::new(repeat.sum_again, repeat.pages);
    let all = [Found::Zeroes, Found::Old, Found::File].into_iter();
    let is_in_all = |found: &Found| pages_with(contents, *found) == repeat.pages;
    all.into_iter().find(is_in_all).unwrap_or(Found::Mixed)
}

/// Pages of a content; none where a word is of no content.
fn pages_with(contents: Option<Contents>, found: Found) -> u64 {
    contents.map_or(0, |contents| match found {
        Found::Zeroes => contents.zeroes,
        Found::Old => contents.old,
        Found::File => contents.file,
        Found::Mixed => 0,
    })
}

/// Pages that were touched, and sums of their words.
struct Sums {
    pages: u64,
    beside: u32,
    again: u32,
}

impl Sums {
    /// Pages beside that have lost their words.
    fn lost_beside(&self) -> u64 {
        let contents = Contents::new(self.beside, self.pages);
        self.pages - pages_with(contents, Found::Old)
    }

    /// Discarded pages that hold what the call does not leave.
    fn broken_promises(&self, line: Line) -> u64 {
        let contents = Contents::new(self.again, self.pages);
        let promised = line.call.promised(line.backing).iter();
        let kept: u64 = promised.map(|found| pages_with(contents, *found)).sum();
        self.pages - kept
    }
}

impl From<&Discard> for Sums {
    fn from(repeat: &Discard) -> Self {
        Self {
            pages: repeat.pages,
            beside: repeat.sum_beside,
            again: repeat.sum_again,
        }
    }
}

impl From<&DiscardMisplaced> for Sums {
    fn from(control: &DiscardMisplaced) -> Self {
        Self {
            pages: control.pages,
            beside: control.sum_beside,
            again: control.sum_again,
        }
    }
}

/// Checks of every repeat; the controls are calls beside their places, and memory that is given back.
fn checks(line: Line, found: &[DiscardRun]) -> Vec<Check> {
    let repeats = found.iter().flat_map(|found| repeats(found, line));
    let repeats: Vec<Sums> = repeats.map(|(_, repeat)| repeat.into()).collect();
    let sum = |of: &dyn Fn(&Sums) -> u64| repeats.iter().map(of).sum::<u64>();
    let control = found.first().and_then(|run| misplaced(run, line));
    let control = |of: &dyn Fn(&Sums) -> u64| control.as_ref().map_or(0, of);
    let broken = |sums: &Sums| sums.broken_promises(line);
    let pages = sum(&|sums| sums.pages);
    let check = Check::against_control;
    let mut checks = vec![
        check(
            "content-beside",
            pages,
            sum(&Sums::lost_beside),
            control(&Sums::lost_beside),
        ),
        check("content-discarded", pages, sum(&broken), control(&broken)),
    ];
    checks.extend(held(line, found));
    checks
}

/// The control of a line's contents: where the call may leave old words, they are spoilt.
fn misplaced(run: &DiscardRun, line: Line) -> Option<Sums> {
    let may_leave_old = line.call.promised(line.backing).contains(&Found::Old);
    let of = |one: &&DiscardMisplaced| {
        (one.backing, one.batch, one.is_spoilt) == (line.backing, line.batch, may_leave_old)
    };
    run.misplaced.iter().find(of).map(Sums::from)
}

/// Pages that are held and not counted, or counted as freed by a call that frees nothing; the control gives all back.
fn held(line: Line, found: &[DiscardRun]) -> Option<Check> {
    let mut held = found.iter().flat_map(|run| &run.held);
    let known = held.find(|held| held.backing == line.backing)?;
    let all = CONTROL_PAGES.get();
    let [before, between, after] = known.own.map(|bytes| all.abs_diff(bytes / 4096));
    Some(Check::against_control(
        "held-memory",
        all,
        before.max(between),
        after,
    ))
}

/// The step whose code a row executed.
pub(super) fn step_of(run: &DiscardRun, row: &Row) -> Option<usize> {
    let operation = row.key.operation;
    let line = Line {
        backing: row.key.backing?,
        call: Call::try_from(row.key.method.mechanism()?).ok()?,
        batch: row.key.batch,
    };
    let (repeat, _) = median(run, line, operation)?;
    // The call is marked first; see `counted`.
    let marked = [Operation::TouchBeside, Operation::TouchAgain];
    let touch = marked.iter().position(|marked| *marked == operation);
    let part = touch.map_or(1, |touch| touch + 2);
    Some(MARKED * repeat + part)
}

#[cfg(test)]
mod tests;

//! From runs to rows: three of each line, of the calls, of what lies beside, and of what comes back. Pure.

use pagetoll_bill::row::{Cleared, Discarded, Found};
use pagetoll_bill::{Check, Crossings, Figures, Operation, Row, RowKey, System, Toll};
use pagetoll_units::Pages;

use super::Known;
use super::chunks::Chunks;
use super::line::{Line, LineRuns, Measured, Run, Singles, Touches};
use super::memory::Held;
use super::request::{Request, UNIT};
use pagetoll_live_host::limits::Lacking;

/// Operations of a line.
const OPERATIONS: [Operation; 3] = [
    Operation::Discard,
    Operation::TouchBeside,
    Operation::TouchAgain,
];
/// Name of KVM's faults among crossings.
const FAULT: &str = "stage-2-fault";

/// Three rows for each line.
pub(super) fn rows(
    request: &Request,
    known: &Known,
    clearing: f64,
    lines: &[LineRuns],
) -> Vec<Row> {
    let of_line = |runs: &LineRuns| {
        let line = runs.line;
        let ordered = OrderedLine {
            line,
            pages: request.order.pages.get(),
            known: known.get(&line.backing),
            clearing,
        };
        OPERATIONS.map(|operation| match &runs.outcome {
            Ok(measured) => ordered.row(operation, measured),
            Err(Lacking { what, remedy }) => {
                let reason = format!("{what}; {remedy}");
                Row::unavailable(ordered.key(operation), ordered.half(), reason)
            }
        })
    };
    lines.iter().flat_map(of_line).collect()
}

/// A line of an order.
struct OrderedLine<'a> {
    line: Line,
    pages: u64,
    known: Option<&'a [Held; 3]>,
    clearing: f64,
}

impl OrderedLine<'_> {
    fn key(&self, operation: Operation) -> RowKey {
        RowKey {
            batch: self.line.batch,
            backing: Some(self.line.backing),
            ..RowKey::new(operation, self.line.call, System::KvmGuest)
        }
    }

    /// Pages that each row is about.
    const fn half(&self) -> Pages {
        Pages(self.pages / 2)
    }

    fn row(&self, operation: Operation, measured: &Measured) -> Row {
        let nanos: fn(&Run) -> f64 = match operation {
            Operation::TouchBeside => |run| run.beside_again.nanos,
            Operation::TouchAgain => |run| run.again.nanos,
            _ => |run| run.calls,
        };
        let half = self.half().get() as f64;
        let costs = measured.runs.iter().map(|run| nanos(run) / half);
        let figures = Figures::of_runs(costs.collect());
        let figures = figures.map(|figures| self.completed(operation, measured, figures));
        let checks = match operation {
            Operation::Discard => self.checks(measured),
            _ => Vec::new(),
        };
        Row::new(self.key(operation), self.half(), figures).with_checks(checks)
    }

    fn completed(&self, operation: Operation, measured: &Measured, figures: Figures) -> Figures {
        let cost = figures.cost_per_page;
        let half = self.half().get() as f64;
        let faults = |touches: fn(&Run) -> Touches| {
            let faults = measured.runs.iter().map(|run| touches(run).faults);
            let faults: Option<Vec<u64>> = faults.collect();
            crossings(mean(faults?.iter().map(|faults| *faults as f64)) / half)
        };
        match operation {
            Operation::TouchBeside => {
                let present = mean(measured.runs.iter().map(|run| run.present.nanos)) / half;
                let touch = present.min(cost);
                Figures {
                    crossings: faults(|run| run.beside_again),
                    tolls: vec![
                        Toll::once("touch", touch),
                        Toll::once("what the discards took", cost - touch),
                    ],
                    ..figures
                }
            }
            Operation::TouchAgain => Figures {
                crossings: faults(|run| run.again),
                ..figures
            },
            _ => Figures {
                discarded: Some(self.discarded(measured)),
                ..figures
            },
        }
    }

    fn discarded(&self, measured: &Measured) -> Discarded {
        let bytes = self.half().get() as f64 * 4096.0;
        let share = |of: &dyn Fn(&Run) -> f64| mean(measured.runs.iter().map(of)) / bytes;
        let fall =
            |of: fn(&Held) -> u64| move |run: &Run| of(&run.before) as f64 - of(&run.after) as f64;
        let rss = share(&fall(|held| held.rss));
        let later = share(&|run: &Run| self.later(run));
        let gone = share(&fall(|held| held.own));
        // What is left of huge pages is not mapped, and is held all the same.
        let held = 1.0 - gone + share(&|run: &Run| self.unsplit(run));
        let held = held.max(0.0);
        let found = found(&measured.runs);
        let singles = &measured.singles;
        let per_call = |pages: Option<u64>, calls: u64| {
            pages
                .filter(|_| calls > 0)
                .map(|pages| pages as f64 / calls as f64)
        };
        let taken = per_call(singles.taken, singles.calls);
        Discarded {
            frees: Discarded::verdict(held, later),
            held,
            freed_later: later,
            rss,
            page_cache: measured
                .runs
                .iter()
                .all(|run| run.after.page_cache.is_some())
                .then(|| self.page_cache(measured)),
            taken_per_call: taken,
            beside_per_call: taken.map(|taken| beside(taken, singles, self.line.batch)),
            faults_beside_per_call: per_call(singles.faults, singles.running),
            found,
            cleared: match found {
                Found::Zeroes | Found::Mixed if rss < 0.5 => Cleared::Call,
                Found::Zeroes | Found::Mixed => Cleared::Touch,
                Found::Old | Found::File => Cleared::Never,
            },
            clearing: self.clearing,
        }
    }

    /// Page cache of the pages that were discarded, for each byte of them: half of all that there is.
    fn page_cache(&self, measured: &Measured) -> f64 {
        let cached = measured.runs.iter().filter_map(|run| run.after.page_cache);
        mean(cached.map(|bytes| bytes as f64)) / (self.pages as f64 * 4096.0)
    }

    /// Bytes that the host takes back once memory is short.
    fn later(&self, run: &Run) -> f64 {
        let lazy = run.after.lazy as f64 - run.before.lazy as f64;
        lazy + self.unsplit(run)
    }

    /// Bytes of huge pages that are not mapped any more and belong to pages that are not split yet.
    fn unsplit(&self, run: &Run) -> f64 {
        let blocks = Chunks::half(self.pages, self.line.batch.into()).broken_blocks();
        let waiting = run.after.deferred_splits - run.before.deferred_splits;
        if blocks == 0 || self.line.backing != pagetoll_bill::row::Backing::Thp {
            return 0.0;
        }
        let share = (waiting as f64 / blocks as f64).min(1.0);
        share * (run.before.own as f64 - run.after.own as f64)
    }

    fn checks(&self, measured: &Measured) -> Vec<Check> {
        let sum = |of: &dyn Fn(&Run) -> u64| measured.runs.iter().map(of).sum::<u64>();
        let broken = |run: &Run| self.broken_promises(run);
        let control = &measured.wrong_place;
        let check = Check::against_control;
        let mut checks = vec![
            check(
                "content-beside",
                sum(&|run| run.beside),
                sum(&|run| run.wrong_beside),
                control.wrong_beside,
            ),
            check(
                "content-discarded",
                sum(&|run| run.discarded),
                sum(&broken),
                broken(control),
            ),
        ];
        checks.extend(self.known.map(held));
        checks
    }

    /// Discarded pages that hold what the call does not leave.
    fn broken_promises(&self, run: &Run) -> u64 {
        let kept = self.line.promised().iter();
        let kept: u64 = kept.map(|found| run.contents.pages(*found)).sum();
        run.discarded.saturating_sub(kept)
    }
}

/// Pages that are held and not counted, or counted as freed by a call that frees nothing; the control gives all back.
fn held([before, between, after]: &[Held; 3]) -> Check {
    let pages = |held: &Held| held.own / 4096;
    let wrong = |held: &Held| UNIT.abs_diff(pages(held));
    let failed = wrong(before).max(wrong(between));
    Check::against_control("held-memory", UNIT, failed, wrong(after))
}

/// Pages of a call's share of stage 2 that are outside its range.
fn beside(taken: f64, singles: &Singles, batch: u32) -> f64 {
    if singles.calls == 0 {
        return 0.0;
    }
    (taken - f64::from(batch)).max(0.0)
}

/// The content that all pages of all runs have.
fn found(runs: &[Run]) -> Found {
    let all = [Found::Zeroes, Found::Old, Found::File].into_iter();
    let is_in_all = |found: &Found| {
        let mut runs = runs.iter();
        runs.all(|run| run.contents.pages(*found) == run.discarded)
    };
    all.into_iter().find(is_in_all).unwrap_or(Found::Mixed)
}

fn crossings(faults: f64) -> Option<Crossings> {
    Some(Crossings {
        per_page: faults,
        by_kind: [(FAULT.to_owned(), faults)].into(),
    })
}

/// The mean; 0 of none.
fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

/// Options of the bill, and limits of its figures.
pub(super) fn notes(request: &Request, lines: &[LineRuns]) -> Vec<String> {
    let mut notes = vec![format!(
        "guest: {} MiB, of which every second chunk is discarded; single calls are one in four blocks of 2 MiB",
        request.bytes() >> 20,
    )];
    let is_counted = lines.iter().any(|line| match &line.outcome {
        Ok(measured) => measured.singles.taken.is_some(),
        Err(_) => true,
    });
    if !is_counted {
        notes.push("KVM does not count the pages of stage 2 here (KVM_GET_STATS_FD)".into());
    }
    notes
}

#[cfg(test)]
mod tests;

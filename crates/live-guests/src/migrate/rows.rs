//! Rows of a bill of migrations: three of each mechanism. Pure.
//!
//! The cost of a page is a time over the pages of the guest.

use pagetoll_bill::row::{Check, Migrated, Phase, Round, Sent, Unavailable, median};
use pagetoll_bill::{Figures, Operation, Row, RowKey, System};

use super::composition::Composed;
use super::line::{Line, LineRuns, Measured};
use super::plan::MOST_ROUNDS;
use super::request::Request;
use super::source::Run;
use super::workload::BURST;
use pagetoll_live_host::limits::Lacking;

const TIMES: [Operation; 3] = [Operation::Migration, Operation::Downtime, Operation::Stall];

/// Three rows for each line, with the composition of the line's migration beside them.
pub(super) fn rows(
    request: &Request,
    lines: &[LineRuns],
    composed: impl Fn(Line, &Measured) -> Option<Composed>,
) -> Vec<Row> {
    let of_line = |runs: &LineRuns| {
        let key = |time| RowKey::new(time, runs.line.0, System::KvmGuest);
        let pages = request.order.pages;
        TIMES.map(|time| match &runs.outcome {
            Ok(measured) => {
                let figures = figures(
                    time,
                    measured,
                    composed(runs.line, measured),
                    pages.get() as f64,
                );
                let row = Row::new(key(time), pages, figures);
                match time {
                    Operation::Migration => row.with_checks(vec![content(measured, pages.get())]),
                    _ => row,
                }
            }
            Err(Lacking { what, remedy }) => {
                Row::unavailable(key(time), pages, format!("{what}; {remedy}"))
            }
        })
    };
    lines.iter().flat_map(of_line).collect()
}

fn content(measured: &Measured, pages: u64) -> Check {
    let runs = || measured.runs.iter();
    let wrong = runs().map(|run| run.report.wrong).sum();
    let tried = pages * runs().count() as u64;
    Check::against_control("content-at-destination", tried, wrong, measured.control)
}

fn figures(
    time: Operation,
    measured: &Measured,
    composed: Option<Composed>,
    pages: f64,
) -> Result<Figures, Unavailable> {
    let times: Vec<f64> = measured.runs.iter().map(|run| run.time(time)).collect();
    let figures = Figures::of_runs(times.iter().map(|time| time / pages).collect())?;
    let composed_time = composed.map(|composed| match time {
        Operation::Migration => composed.total,
        Operation::Downtime => composed.downtime,
        _ => composed.stall,
    });
    let longest = measured.runs.iter().map(Run::longest);
    Ok(Figures {
        migrated: Some(Migrated {
            median: figures.cost_per_page * pages,
            composed: composed_time,
            sent: (time == Operation::Migration)
                .then(|| sent(measured, composed, pages))
                .flatten(),
            longest: match time {
                Operation::Stall => longest.reduce(f64::max),
                _ => None,
            },
        }),
        ..figures
    })
}

fn sent(measured: &Measured, composed: Option<Composed>, pages: f64) -> Option<Sent> {
    let middle = |value: fn(&Run) -> f64| {
        median(&measured.runs.iter().map(value).collect::<Vec<f64>>()).unwrap_or_default()
    };
    let sent = middle(|run| run.sent() as f64);
    Some(Sent {
        pages: sent,
        again: (sent - pages).max(0.0),
        waited_for: middle(|run| run.report.waited_for as f64),
        composed: composed.map(|composed| composed.sent),
        rounds: of_middle(&measured.runs)?.rounds_since_order(),
    })
}

/// The run whose total is in the middle.
fn of_middle(runs: &[Run]) -> Option<&Run> {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| run.ended() - run.begun);
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

impl Run {
    /// Time at which the source is not needed any more.
    const fn ended(&self) -> u64 {
        match self.report.last {
            0 => self.report.resumed,
            last => last,
        }
    }

    /// Stop of the guest, in nanoseconds.
    pub(super) fn downtime(&self) -> f64 {
        self.report.resumed.saturating_sub(self.stopped) as f64
    }

    pub(super) fn time(&self, time: Operation) -> f64 {
        match time {
            Operation::Migration => (self.ended() - self.begun) as f64,
            Operation::Downtime => self.downtime(),
            _ => self.delays().sum::<f64>() + self.downtime(),
        }
    }

    /// Time that each burst took more than before the migration.
    fn delays(&self) -> impl Iterator<Item = f64> + '_ {
        let bursts = self.bursts.iter().chain(&self.report.bursts);
        bursts.map(|burst| (burst.time as f64 - burst.pages as f64 * self.untracked).max(0.0))
    }

    fn longest(&self) -> f64 {
        self.delays().fold(self.downtime(), f64::max)
    }

    pub(super) fn sent(&self) -> u64 {
        self.rounds.iter().map(|round| round.pages).sum()
    }

    fn rounds_since_order(&self) -> Vec<Round> {
        let since = |time: u64| time.saturating_sub(self.begun) as f64;
        let rounds = self.rounds.iter();
        rounds
            .map(|round| Round {
                begun: since(round.begun),
                ended: since(round.ended),
                pages: round.pages,
                phase: round.phase,
            })
            .collect()
    }

    /// Time of a page of the longest round, but for those that were fetched one by one, in nanoseconds.
    pub(super) fn time_of_page(&self) -> Option<f64> {
        let is_long = |phase| phase != Phase::Stopped || self.rounds.len() == 1;
        let rounds = self.rounds.iter().filter(|round| is_long(round.phase));
        let longest = rounds.max_by_key(|round| round.pages)?;
        let time = (longest.ended - longest.begun) as f64;
        let by_themselves = [self.report.singles, self.report.between];
        let pages: u64 = by_themselves.iter().map(|singles| singles.pages).sum();
        let of_these: u64 = by_themselves.iter().map(|singles| singles.time).sum();
        let pages = longest.pages.saturating_sub(pages);
        (pages > 0).then(|| (time - of_these as f64) / pages as f64)
    }
}

/// Meaning of the figures, and their limits.
pub(super) fn notes(request: &Request, composed_of: &str) -> Vec<String> {
    let workload = match request.workload.set.len() {
        0 => "the guest writes nothing".to_owned(),
        set => format!(
            "the guest writes {set} pages in random order again and again, {} a second by bursts of {BURST}",
            request.dirty_rate
        ),
    };
    vec![
        format!(
            "{workload}; its vCPU keeps its CPU; at most {} MiB a second are sent",
            request.bandwidth
        ),
        format!(
            "precopy ends when what is left can be sent in {} ms, or after {MOST_ROUNDS} rounds",
            request.downtime_limit
        ),
        "migration: from the order until every page is at the destination and the guest runs there; downtime: from its last \
         instruction at the source to its first at the destination; stall: downtime, and the time that its bursts of writes take \
         more than before, until it has been through its working set at the destination"
            .to_owned(),
        format!("composed: {composed_of}"),
        "content-at-destination: every word of every page after the migration; the control changes one bit on the way".to_owned(),
    ]
}

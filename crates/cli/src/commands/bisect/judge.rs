//! Judgement of a kernel: a row of its bill against the same row of the good kernel's.

use std::sync::Mutex;

use anyhow::Result;
use clap::CommandFactory;
use pagetoll_backend::Context;
use pagetoll_bill::Bill;
use pagetoll_bill::row::{RowKey, RowSelection};
use pagetoll_compare::diff::{self, Diff};
use pagetoll_sweep::bisect::Verdict;

use super::settings;
use crate::args::{Cli, Judging, RunOneArgs};
use crate::commands::report;
use crate::commands::sweep::executor::{Attempt, Executor};
use crate::commands::sweep::inputs::Inputs;
use crate::commands::sweep::jobs;
use crate::commands::sweep::local::Local;
use crate::commands::watched::is_stopped;
use crate::failure::{self, Failure, Outcome};

/// A good bill, and what is compared with it.
pub(super) struct Judge {
    good: Bill,
    pub(super) row: RowKey,
    /// A share.
    tolerance: f64,
    pub(super) sought: Sought,
}

/// Change that makes a kernel a bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sought {
    /// The row costs more than the good kernel's.
    More,
    /// The row costs less.
    Less,
}

impl Sought {
    /// Words for the two sorts of kernels.
    pub(super) const fn names(self) -> Names {
        match self {
            Self::More => Names {
                good: "good",
                bad: "bad",
                contrary: "costs no more than",
                expected: "a row that regressed",
            },
            Self::Less => Names {
                good: "as before",
                bad: "improved",
                contrary: "costs no less than",
                expected: "a row that improved",
            },
        }
    }
}

/// Words of one search.
pub(super) struct Names {
    pub(super) good: &'static str,
    pub(super) bad: &'static str,
    /// Relation of the two ends where they do not differ so.
    pub(super) contrary: &'static str,
    pub(super) expected: &'static str,
}

/// A row before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// Cost of the good bill's row.
    pub(super) old: f64,
    /// Cost of this bill's row.
    pub(super) new: f64,
}

impl Judge {
    pub(super) fn new(judging: &Judging, sought: Sought, good: Bill) -> Result<Self, Failure> {
        Ok(Self {
            sought,
            row: row(&judging.row, &good)?,
            tolerance: judging.tolerance / 100.0,
            good,
        })
    }

    /// The comparison of the row alone.
    ///
    /// # Errors
    /// Bills that cannot be compared.
    pub(super) fn diff(&self, bill: &Bill) -> Result<Diff, String> {
        let mut diff =
            Diff::new(&self.good, bill, self.tolerance).map_err(|error| error.to_string())?;
        diff.changes.retain(|change| change.key == self.row);
        diff.findings.retain(|finding| finding.key == self.row);
        diff.unmatched.clear();
        match diff.changes.is_empty() {
            true => Err(format!(
                "has no figure of {} that can be compared",
                self.row
            )),
            false => Ok(diff),
        }
    }

    /// Verdict on the row, with its costs.
    ///
    /// # Errors
    /// Bills that cannot be compared, or too few runs.
    pub(super) fn of(&self, bill: &Bill) -> Result<Judged, String> {
        let diff = self.diff(bill)?;
        let change = &diff.changes[0];
        let verdict = match (change.verdict, self.sought) {
            (diff::Verdict::Regressed, Sought::More) | (diff::Verdict::Improved, Sought::Less) => {
                Verdict::Bad
            }
            (diff::Verdict::Undecided, _) => return Err("has too few runs to say".to_owned()),
            (diff::Verdict::Unsteady, _) => return Err("spreads too far to say".to_owned()),
            _ => Verdict::Good,
        };
        Ok(Judged {
            verdict,
            old: change.old,
            new: change.new,
        })
    }
}

/// The only row that a filter selects.
fn row(filter: &str, bill: &Bill) -> Result<RowKey, Failure> {
    let rows = bill.rows.iter().filter(|row| row.cost().is_some());
    let mut keys: Vec<_> = rows.map(|row| row.key.on_any_kernel()).collect();
    let selection = RowSelection::new([filter]);
    selection
        .check(keys.iter())
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    keys.retain(|key| selection.includes(key));
    keys.dedup();
    match keys.as_slice() {
        [key] => Ok(key.clone()),
        several => {
            let names: Vec<_> = several.iter().map(|key| format!("'{key}'")).collect();
            Err(Failure::BadInput(format!(
                "--row {filter}: several rows; expected one of {}",
                names.join(", ")
            )))
        }
    }
}

/// Bills a kernel and judges it, as git-bisect(1) wants it: whatever is wrong, other codes than 125 would say "bad".
pub(super) fn run_one(args: &RunOneArgs, context: &Context<'_>) -> Result<Outcome> {
    match judged(args, context) {
        Err(error) if !is_stopped(&error) => {
            failure::print(&error);
            Ok(Outcome::LeftOut)
        }
        judged => judged,
    }
}

fn judged(args: &RunOneArgs, context: &Context<'_>) -> Result<Outcome> {
    let good = report::read(&args.good)?;
    let settings = settings(good.route.name(), &args.judging, &[])?;
    let judge = Judge::new(&args.judging, Sought::More, good)?;
    let mut inputs = Inputs::new(context.stop);
    let job = jobs::job(settings, &mut Cli::command(), &mut inputs)?;
    let jobs = [job];
    let ended: Mutex<Option<Attempt>> = Mutex::default();
    let took = |_: &pagetoll_sweep::Job, attempt| {
        if let Ok(mut ended) = ended.lock() {
            *ended = Some(attempt);
        }
        Ok(())
    };
    Local::new(&jobs, 1)?.run(&[&jobs[0]], &took, context.stop)?;
    let attempt = ended.into_inner().ok().flatten();
    let bill = attempt.map_or(Err(String::new()), |attempt| {
        let bill = attempt.bill();
        bill.map_err(|problem| format!("{}{problem}", attempt.stderr))
    });
    let judged = bill.and_then(|bill| judge.of(&bill));
    Ok(match judged {
        Ok(judged) => {
            let costs = format!("{:.1} -> {:.1}", judged.old, judged.new);
            failure::note(&format!("{}: {costs}", judge.row));
            match judged.verdict {
                Verdict::Bad => Outcome::CheckFailed,
                Verdict::Good | Verdict::Skip => Outcome::Success,
            }
        }
        Err(problem) => {
            failure::note(&format!("left out: {problem}"));
            Outcome::LeftOut
        }
    })
}

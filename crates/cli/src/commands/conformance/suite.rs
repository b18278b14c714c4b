//! What every suite is: cases, a model that answers them, and a real system that does.

use std::time::Duration;

use anyhow::{Context, Result};
use pagetoll_conformance::ScriptError;

use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::failure::Failure;

/// CPU time of a guest's QEMU without a report; a case takes below a millisecond.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A case, as far as the table shows it.
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) steps: Vec<String>,
    /// The mechanisms by which the model would answer otherwise than by its own.
    pub(super) wrong_by: Vec<&'static str>,
}

/// What a system said to a case.
pub(super) enum Given {
    /// A line for each step.
    Answers(Vec<String>),
    /// Nothing, because the case needs what the system lacks.
    Skipped(String),
}

/// One system's answers to all cases, and what it is.
pub(super) struct Told {
    pub(super) system: String,
    pub(super) given: Vec<Given>,
}

/// Cases, and who answers them.
pub(super) trait Suite {
    /// A case of it.
    type Case;
    /// What its model is called.
    const MODEL: &'static str;
    /// What the answers in `conformance/` are called.
    const RECORDED: &'static str;
    /// Which of the systems that can be asked for is its real one.
    const REAL: ConformanceSystems;

    /// All cases.
    fn all() -> Result<Vec<Self::Case>, ScriptError>;
    /// A case as the table shows it.
    fn ask(case: &Self::Case) -> Asked;
    /// What the model answers.
    fn simulate(case: &Self::Case) -> Vec<String>;
    /// What was recorded.
    fn recorded(case: &str) -> Given;
    /// What the real one answers.
    fn on_the_real_one(
        cases: &[Self::Case],
        args: &ConformanceArgs,
        verbosity: Verbosity,
    ) -> Result<Told>;
}

/// The chosen cases with both systems' answers; where one alone was asked for, the other's are the recorded ones.
pub(super) fn compare<S: Suite>(
    args: &ConformanceArgs,
    verbosity: Verbosity,
) -> Result<(Vec<Asked>, Told, Told)> {
    let all = S::all().context("a script of this program is damaged")?;
    let with_asked = all.into_iter().map(|case| (S::ask(&case), case));
    let chosen = with_asked.filter(|(asked, _)| asked.name.contains(&args.case));
    let (asked, cases): (Vec<Asked>, Vec<S::Case>) = chosen.unzip();
    check::<S>(args, cases.len())?;
    let real = || S::on_the_real_one(&cases, args, verbosity);
    let (sim, real) = match args.on {
        ConformanceSystems::Both => (simulated::<S>(&cases), real()?),
        ConformanceSystems::Sim => (simulated::<S>(&cases), from_record::<S>(&asked)),
        ConformanceSystems::Lab | ConformanceSystems::Live => (from_record::<S>(&asked), real()?),
    };
    Ok((asked, sim, real))
}

fn check<S: Suite>(args: &ConformanceArgs, cases: usize) -> Result<(), Failure> {
    if cases == 0 {
        let problem = format!("--case {}: no case is called so", args.case);
        return Err(Failure::BadInput(problem));
    }
    if [ConformanceSystems::Both, ConformanceSystems::Sim, S::REAL].contains(&args.on) {
        return Ok(());
    }
    let problem = format!(
        "--on {}: this suite's real system is asked for by --on {}",
        args.on.name(),
        S::REAL.name()
    );
    Err(Failure::BadInput(problem))
}

fn simulated<S: Suite>(cases: &[S::Case]) -> Told {
    let given = cases.iter().map(|case| Given::Answers(S::simulate(case)));
    Told {
        system: S::MODEL.to_owned(),
        given: given.collect(),
    }
}

fn from_record<S: Suite>(asked: &[Asked]) -> Told {
    let given = asked.iter().map(|case| S::recorded(&case.name));
    Told {
        system: S::RECORDED.to_owned(),
        given: given.collect(),
    }
}

//! What every suite is: cases, a model that answers them, and a real system that does.

use std::time::Duration;

use anyhow::Result;

use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::failure::Failure;

/// A guest that says nothing for so long is given up; a case takes below a millisecond.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// A case, as far as the table shows it.
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) steps: Vec<String>,
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
    /// The cases that were chosen.
    fn asked(&self) -> Vec<Asked>;
    /// What the model answers.
    fn simulated(&self) -> Told;
    /// Which of the systems that can be asked for is its real one.
    fn real(&self) -> ConformanceSystems;
    /// What that answers.
    fn on_the_real_one(&self, args: &ConformanceArgs, verbosity: Verbosity) -> Result<Told>;
    /// What the table calls the answers in `conformance/`.
    fn recorded_on(&self) -> &'static str;
    /// Those to a case.
    fn recorded(&self, case: &str) -> Given;
}

/// The cases with both systems' answers; where one alone was asked for, the other's are the recorded ones.
pub(super) fn compare(
    suite: &dyn Suite,
    args: &ConformanceArgs,
    verbosity: Verbosity,
) -> Result<(Vec<Asked>, Told, Told)> {
    let asked = suite.asked();
    check(suite, args, asked.len())?;
    let (sim, real) = match args.on {
        ConformanceSystems::Both => (suite.simulated(), suite.on_the_real_one(args, verbosity)?),
        ConformanceSystems::Sim => (suite.simulated(), from_record(suite, &asked)),
        ConformanceSystems::Lab | ConformanceSystems::Live => {
            let real = suite.on_the_real_one(args, verbosity)?;
            (from_record(suite, &asked), real)
        }
    };
    Ok((asked, sim, real))
}

fn check(suite: &dyn Suite, args: &ConformanceArgs, cases: usize) -> Result<(), Failure> {
    if cases == 0 {
        let problem = format!("--case {}: no case is called so", args.case);
        return Err(Failure::BadInput(problem));
    }
    let (on, real) = (args.on, suite.real());
    let either = [ConformanceSystems::Both, ConformanceSystems::Sim];
    if on == real || either.contains(&on) {
        return Ok(());
    }
    let problem = format!(
        "--on {}: this suite's real system is asked for by --on {}",
        on.name(),
        real.name()
    );
    Err(Failure::BadInput(problem))
}

fn from_record(suite: &dyn Suite, asked: &[Asked]) -> Told {
    let given = asked.iter().map(|case| suite.recorded(&case.name));
    Told {
        system: suite.recorded_on().to_owned(),
        given: given.collect(),
    }
}

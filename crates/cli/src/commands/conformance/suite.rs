//! The parts of every suite: cases, a model that answers them, and a real system that does.

use anyhow::{Context, Result};
use pagetoll_bill::Arch;
use pagetoll_conformance::{ScriptError, Scripted};

use crate::args::{ConformanceArgs, ConformanceSuite, ConformanceSystems, Verbosity};
use crate::failure::Failure;

/// A case, as far as the table shows it.
pub(super) struct Asked {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) steps: Vec<String>,
    /// Mechanisms of the model whose answers differ from those of the one that it implements.
    pub(super) wrong_by: Vec<&'static str>,
}

/// A system's answer to a case.
pub(super) enum Given {
    /// A line for each step.
    Answers(Vec<String>),
    /// The system lacks something that the case needs.
    Skipped(String),
}

/// One system's answers to all cases.
pub(super) struct Answers {
    pub(super) system: String,
    /// In the order of the cases.
    pub(super) given: Vec<Given>,
}

/// Cases, and the systems that answer them.
pub(super) struct Suite<C: 'static> {
    pub(super) all: fn() -> Result<Vec<C>, ScriptError>,
    pub(super) recorded: fn(&str) -> Given,
    /// The system whose answers were recorded.
    pub(super) recorded_on: &'static str,
    pub(super) model_name: &'static str,
    /// A line for each step.
    pub(super) model: fn(&C, Arch) -> Vec<String>,
    /// Becomes [`Asked::wrong_by`] of the case.
    pub(super) wrong_by: fn(&C, Arch) -> Vec<&'static str>,
    /// The value of `--on` that selects the real system.
    pub(super) real_name: ConformanceSystems,
    pub(super) real: fn(&[C], &ConformanceArgs, Verbosity) -> Result<Answers>,
}

/// The chosen cases, and the answers of both systems.
pub(super) struct Comparison {
    pub(super) asked: Vec<Asked>,
    pub(super) sim: Answers,
    pub(super) real: Answers,
}

impl<C: Scripted> Suite<C> {
    /// Runs the chosen cases on the systems that `--on` names; the recorded answers stand in for the other.
    pub(super) fn compare(
        &self,
        args: &ConformanceArgs,
        verbosity: Verbosity,
    ) -> Result<Comparison> {
        let mut cases = (self.all)().context("a script of this program is damaged")?;
        cases.retain(|case| case.name().contains(&args.case));
        self.check(args, cases.len())?;
        let arch = args.arch.unwrap_or_default();
        let asked = cases.iter().map(|case| self.asked(case, arch)).collect();
        let real = || (self.real)(&cases, args, verbosity);
        let (sim, real) = match args.on {
            ConformanceSystems::Both => (self.simulated(&cases, arch), real()?),
            ConformanceSystems::Sim => {
                (self.simulated(&cases, arch), self.recorded_answers(&cases))
            }
            ConformanceSystems::Lab | ConformanceSystems::Live => {
                (self.recorded_answers(&cases), real()?)
            }
        };
        Ok(Comparison { asked, sim, real })
    }

    fn check(&self, args: &ConformanceArgs, cases: usize) -> Result<(), Failure> {
        if cases == 0 {
            let problem = format!("--case {}: no case is called so", args.case);
            return Err(Failure::BadInput(problem));
        }
        if let Some(arch) = args.arch.filter(|_| args.suite != ConformanceSuite::Vfio) {
            let problem = format!("--arch {arch}: expected it with --suite vfio");
            return Err(Failure::BadInput(problem));
        }
        let is_recorded = args.arch.is_none_or(|arch| arch == Arch::default());
        if !is_recorded && args.on != ConformanceSystems::Both {
            let problem = format!(
                "--on {}: answers were recorded on x86-64; expected --on both with --arch arm64",
                args.on.name()
            );
            return Err(Failure::BadInput(problem));
        }
        let real = self.real_name;
        if [ConformanceSystems::Both, ConformanceSystems::Sim, real].contains(&args.on) {
            return Ok(());
        }
        let (on, real) = (args.on.name(), real.name());
        let problem = format!("--on {on}: this suite's real system is asked for by --on {real}");
        Err(Failure::BadInput(problem))
    }

    fn asked(&self, case: &C, arch: Arch) -> Asked {
        Asked {
            name: case.name().to_owned(),
            about: case.about().to_owned(),
            steps: case.steps().map(str::to_owned).collect(),
            wrong_by: (self.wrong_by)(case, arch),
        }
    }

    fn simulated(&self, cases: &[C], arch: Arch) -> Answers {
        let answers = |case| Given::Answers((self.model)(case, arch));
        let given = cases.iter().map(answers);
        Answers {
            system: self.model_name.to_owned(),
            given: given.collect(),
        }
    }

    fn recorded_answers(&self, cases: &[C]) -> Answers {
        let given = cases.iter().map(|case| (self.recorded)(case.name()));
        Answers {
            system: self.recorded_on.to_owned(),
            given: given.collect(),
        }
    }
}

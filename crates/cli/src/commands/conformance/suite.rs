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

/// Answers of a system to all cases.
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
    /// The values of `--on` that select a real system, the default first.
    pub(super) real_on: &'static [ConformanceSystems],
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
            let problem = format!("--case {}: no such case", args.case);
            return Err(Failure::BadInput(problem));
        }
        self.check_on(args.on)?;
        args.arch.map_or(Ok(()), |arch| check_arch(arch, args))?;
        check_options_of_lab(args)
    }

    fn check_on(&self, on: ConformanceSystems) -> Result<(), Failure> {
        let simulated = [ConformanceSystems::Both, ConformanceSystems::Sim];
        if simulated.contains(&on) || self.real_on.contains(&on) {
            return Ok(());
        }
        let names: Vec<_> = self.real_on.iter().map(|on| on.name()).collect();
        let (on, real) = (on.name(), names.join(" or "));
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

/// Checks that the suite runs on a processor of choice. Answers were recorded on x86-64.
fn check_arch(arch: Arch, args: &ConformanceArgs) -> Result<(), Failure> {
    let on = args.on.name();
    let problem = match (args.suite, args.on) {
        (ConformanceSuite::Xen, _) => {
            format!("--arch {arch}: expected it with --suite vfio or --suite kvm")
        }
        (_, ConformanceSystems::Live) => {
            format!("--arch {arch}: expected --on both or --on lab; --on live is this host")
        }
        (_, ConformanceSystems::Lab | ConformanceSystems::Sim) if arch != Arch::default() => {
            format!(
                "--on {on}: answers were recorded on x86-64; expected --on both with --arch {arch}"
            )
        }
        _ => return Ok(()),
    };
    Err(Failure::BadInput(problem))
}

/// The suite that this host answers, unless it is asked in the lab, boots nothing.
fn check_options_of_lab(args: &ConformanceArgs) -> Result<(), Failure> {
    if args.suite != ConformanceSuite::Kvm || args.wants_lab() {
        return Ok(());
    }
    let given = [
        ("--kernel", !args.images.kernel.is_empty()),
        ("--modules", args.images.modules.is_some()),
        ("--keep-logs", args.keep_logs.is_some()),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let problem = format!("{option}: expected it with --arch or --on lab; this host boots nothing");
    Err(Failure::BadInput(problem))
}

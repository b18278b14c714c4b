//! Memslots and userfaultfds: on this host, and on the model of KVM and Linux's memory.

use anyhow::Result;
use pagetoll_conformance::ScriptError;
use pagetoll_conformance::kvm::{Case, all, describe, recorded};
use pagetoll_live::conformance::{self, Outcome, Ran};
use pagetoll_models::kvm::run as run_on_model;

use super::suite::{Asked, Given, Suite, Told};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::commands::watched::watched;

const NOT_RECORDED: &str = "the host that was recorded lacks what it needs";

/// The suite.
pub(super) struct Kvm;

impl Suite for Kvm {
    type Case = Case;
    const MODEL: &'static str = "model of KVM and userfaultfd";
    const RECORDED: &'static str = "Linux 6.18, recorded";
    const REAL: ConformanceSystems = ConformanceSystems::Live;

    fn all() -> Result<Vec<Case>, ScriptError> {
        all()
    }

    fn ask(case: &Case) -> Asked {
        Asked {
            name: case.name.clone(),
            about: case.about.clone(),
            steps: case.steps.iter().map(|step| step.text.clone()).collect(),
            wrong_by: Vec::new(),
        }
    }

    fn simulate(case: &Case) -> Vec<String> {
        describe(case, &run_on_model(case))
    }

    fn recorded(case: &str) -> Given {
        recorded(case).map_or_else(|| Given::Skipped(NOT_RECORDED.to_owned()), Given::Answers)
    }

    fn on_the_real_one(cases: &[Case], _: &ConformanceArgs, verbosity: Verbosity) -> Result<Told> {
        let Ran { linux, outcomes } = watched(verbosity, |context| {
            Ok(conformance::run(cases, context.stop)?)
        })?;
        let given = |(case, outcome): (&Case, Outcome)| match outcome {
            Outcome::Answered(answered) => Given::Answers(describe(case, &answered)),
            Outcome::Skipped(why) => Given::Skipped(why),
        };
        Ok(Told {
            system: format!("Linux {linux}, this host"),
            given: cases.iter().zip(outcomes).map(given).collect(),
        })
    }
}

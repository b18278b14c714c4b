//! Memslots and userfaultfds: on this host, and on the model of KVM and Linux's memory.

use anyhow::{Context, Result};
use pagetoll_conformance::kvm::{Case, all, describe, recorded};
use pagetoll_live::conformance::{Outcome, Ran};
use pagetoll_systems::kvm::run as run_on_model;

use super::suite::{self, Asked, Given, Told};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::commands::on_this_host;

/// The cases that were chosen.
pub(super) struct Suite {
    cases: Vec<Case>,
}

impl Suite {
    pub(super) fn new(args: &ConformanceArgs) -> Result<Self> {
        let mut cases = all().context("a script of this program is damaged")?;
        cases.retain(|case| case.name.contains(&args.case));
        Ok(Self { cases })
    }
}

impl suite::Suite for Suite {
    fn asked(&self) -> Vec<Asked> {
        let asked = |case: &Case| Asked {
            name: case.name.clone(),
            about: case.about.clone(),
            steps: case.steps.iter().map(|step| step.text.clone()).collect(),
        };
        self.cases.iter().map(asked).collect()
    }

    fn simulated(&self) -> Told {
        let given = |case: &Case| Given::Answers(describe(case, &run_on_model(case)));
        Told {
            system: "model of KVM and userfaultfd".to_owned(),
            given: self.cases.iter().map(given).collect(),
        }
    }

    fn real(&self) -> ConformanceSystems {
        ConformanceSystems::Live
    }

    fn on_the_real_one(&self, _: &ConformanceArgs, _: Verbosity) -> Result<Told> {
        let Ran { linux, outcomes } = on_this_host::conformance(&self.cases)?;
        let given = |(case, outcome): (&Case, Outcome)| match outcome {
            Outcome::Answered(answered) => Given::Answers(describe(case, &answered)),
            Outcome::Skipped(why) => Given::Skipped(why),
        };
        Ok(Told {
            system: format!("Linux {linux}, this host"),
            given: self.cases.iter().zip(outcomes).map(given).collect(),
        })
    }

    fn recorded_on(&self) -> &'static str {
        "Linux, recorded"
    }

    fn recorded(&self, case: &str) -> Given {
        let lacking =
            || Given::Skipped("the host that was recorded lacks what it needs".to_owned());
        recorded(case).map_or_else(lacking, Given::Answers)
    }
}

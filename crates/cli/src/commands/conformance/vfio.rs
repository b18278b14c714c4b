//! Mapping memory for DMA: on a real kernel, and on the model of VFIO type1.

use anyhow::{Context, Result};
use pagetoll_conformance::vfio::{Case, all, describe, recorded};
use pagetoll_lab::apt::Freshness;
use pagetoll_lab::pin::conformance::{Request, run as run_on_lab};
use pagetoll_systems::vfio::{Mechanism, run as run_on_model};

use super::suite::{self, Asked, Given, SILENCE, Told};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::commands::in_lab;
use crate::request;

/// What kernels do today.
const MECHANISM: Mechanism = Mechanism::PerFolio;

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
        let given = |case: &Case| Given::Answers(describe(case, &run_on_model(case, MECHANISM)));
        Told {
            system: format!("model of VFIO type1, {}", MECHANISM.name()),
            given: self.cases.iter().map(given).collect(),
        }
    }

    fn real(&self) -> ConformanceSystems {
        ConformanceSystems::Lab
    }

    fn on_the_real_one(&self, args: &ConformanceArgs, verbosity: Verbosity) -> Result<Told> {
        let request = Request {
            kernel: request::kernel(&args.images)?,
            freshness: Freshness::Cached,
            keep_logs: args.keep_logs.clone(),
            silence: SILENCE,
        };
        let ran = in_lab::run(verbosity, |surroundings| {
            run_on_lab(&request, &self.cases, surroundings)
        })?;
        let pairs = self.cases.iter().zip(&ran.answered);
        Ok(Told {
            system: format!("Linux {}", ran.linux),
            given: pairs
                .map(|(case, answered)| Given::Answers(describe(case, answered)))
                .collect(),
        })
    }

    fn recorded_on(&self) -> &'static str {
        "Linux, recorded"
    }

    fn recorded(&self, case: &str) -> Given {
        Given::Answers(recorded(case).unwrap_or_default())
    }
}

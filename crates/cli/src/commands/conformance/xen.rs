//! Updates of a PV guest's page tables: on a real Xen, and on the simulated one.

use anyhow::Result;
use pagetoll_conformance::{Case, ScriptError, all, describe, recorded};
use pagetoll_images::apt::Freshness;
use pagetoll_lab::conformance::{Request, run as run_on_lab};
use pagetoll_models::conformance::run as run_on_sim;

use super::suite::{Asked, Given, SILENCE, Suite, Told};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::commands::in_lab;
use crate::request;

/// The suite.
pub(super) struct Xen;

impl Suite for Xen {
    type Case = Case;
    const MODEL: &'static str = "simulated Xen";
    const RECORDED: &'static str = "Xen 4.17, recorded";
    const REAL: ConformanceSystems = ConformanceSystems::Lab;

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
        describe(case, &run_on_sim(case))
    }

    fn recorded(case: &str) -> Given {
        Given::Answers(recorded(case).unwrap_or_default())
    }

    fn on_the_real_one(
        cases: &[Case],
        args: &ConformanceArgs,
        verbosity: Verbosity,
    ) -> Result<Told> {
        let request = Request {
            kernel: request::kernel(&args.images)?,
            xen: args.images.xen.parse()?,
            freshness: Freshness::Cached,
            keep_logs: args.keep_logs.clone(),
            silence: SILENCE,
        };
        let ran = in_lab::run(verbosity, |surroundings| {
            run_on_lab(&request, cases, surroundings)
        })?;
        let pairs = cases.iter().zip(&ran.answered);
        let given = pairs.map(|(case, answered)| Given::Answers(describe(case, answered)));
        Ok(Told {
            system: format!("Xen {} under Linux {}", ran.xen, ran.linux),
            given: given.collect(),
        })
    }
}

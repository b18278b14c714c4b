//! Mapping memory for DMA: on a real kernel, and on the model of VFIO type1.

use anyhow::Result;
use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Pin;
use pagetoll_conformance::ScriptError;
use pagetoll_conformance::vfio::{Case, all, describe, recorded};
use pagetoll_lab::routes::pin::conformance::{Request, run as run_on_lab};
use pagetoll_models::vfio::{Mechanism, run as run_on_model};
use pagetoll_sim::routes::pin::model;

use super::suite::{Asked, Given, Suite, Told};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::commands::watched::in_lab;

/// The suite. Its model pins per folio, as kernels do today.
pub(super) struct Vfio;

impl Suite for Vfio {
    type Case = Case;
    const MODEL: &'static str = "model of VFIO type1, per-folio";
    const RECORDED: &'static str = "Linux, recorded";
    const REAL: ConformanceSystems = ConformanceSystems::Lab;

    fn all() -> Result<Vec<Case>, ScriptError> {
        all()
    }

    fn ask(case: &Case) -> Asked {
        Asked {
            name: case.name.clone(),
            about: case.about.clone(),
            steps: case.steps.iter().map(|step| step.text.clone()).collect(),
            wrong_by: wrong_by(case),
        }
    }

    fn simulate(case: &Case) -> Vec<String> {
        describe(case, &run_on_model(case, Mechanism::PerFolio))
    }

    fn recorded(case: &str) -> Given {
        Given::Answers(recorded(case).unwrap_or_default())
    }

    fn on_the_real_one(
        cases: &[Case],
        args: &ConformanceArgs,
        verbosity: Verbosity,
    ) -> Result<Told> {
        let request = Request::new(&args.lab())?;
        let ran = in_lab(verbosity, |surroundings| {
            run_on_lab(&request, cases, surroundings)
        })?;
        let pairs = cases.iter().zip(&ran.answered);
        let given = pairs.map(|(case, answered)| Given::Answers(describe(case, answered)));
        Ok(Told {
            system: format!("Linux {}", ran.linux),
            given: given.collect(),
        })
    }
}

/// The mechanisms that do not do what a kernel does today: their loop would lose or leak a pin there.
fn wrong_by(case: &Case) -> Vec<&'static str> {
    let right = run_on_model(case, Mechanism::PerFolio);
    let is_wrong = |pin: &Pin| model(*pin).is_some_and(|model| run_on_model(case, model) != right);
    let wrong = Pin::ALL.iter().copied().filter(is_wrong);
    wrong.map(|pin| pin.properties().name).collect()
}

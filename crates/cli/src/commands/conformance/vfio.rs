//! The cases of mapping memory for DMA: on a real kernel, and on the model of VFIO type1.

use anyhow::{Context, Result};
use pagetoll_conformance::vfio::{Case, all, describe, recorded};
use pagetoll_lab::apt::Freshness;
use pagetoll_lab::pin::conformance::{Request, run as run_on_lab};
use pagetoll_systems::vfio::{Mechanism, run as run_on_model};

use super::{Asked, SILENCE, Told, check_some, compared, in_lab};
use crate::args::{ConformanceArgs, ConformanceSystems, Verbosity};
use crate::request;

/// What the table calls the answers in `conformance/vfio`.
const RECORDED: &str = "Linux, recorded";
/// What kernels do today.
const MECHANISM: Mechanism = Mechanism::PerFolio;

/// Runs the cases and compares.
pub(super) fn compare(args: &ConformanceArgs, verbosity: Verbosity) -> Result<super::Compared> {
    let mut cases = all().context("a script of this program is damaged")?;
    cases.retain(|case| case.name.contains(&args.case));
    check_some(args, cases.len())?;
    let (sim, real) = match args.on {
        ConformanceSystems::Both => (simulated(&cases), on_lab(args, &cases, verbosity)?),
        ConformanceSystems::Sim => (simulated(&cases), from_record(&cases)),
        ConformanceSystems::Lab => (from_record(&cases), on_lab(args, &cases, verbosity)?),
    };
    let asked: Vec<_> = cases.iter().map(asked).collect();
    compared(args, &asked, (sim, real))
}

fn asked(case: &Case) -> Asked {
    Asked {
        name: case.name.clone(),
        about: case.about.clone(),
        steps: case.steps.iter().map(|step| step.text.clone()).collect(),
    }
}

fn simulated(cases: &[Case]) -> Told {
    let answers = |case: &Case| describe(case, &run_on_model(case, MECHANISM));
    Told {
        system: format!("model of VFIO type1, {}", MECHANISM.name()),
        answers: cases.iter().map(answers).collect(),
    }
}

fn from_record(cases: &[Case]) -> Told {
    Told {
        system: RECORDED.to_owned(),
        answers: cases
            .iter()
            .map(|case| recorded(&case.name).unwrap_or_default())
            .collect(),
    }
}

fn on_lab(args: &ConformanceArgs, cases: &[Case], verbosity: Verbosity) -> Result<Told> {
    let request = Request {
        kernel: request::kernel(&args.images)?,
        freshness: Freshness::Cached,
        keep_logs: args.keep_logs.clone(),
        silence: SILENCE,
    };
    let ran = in_lab::run(verbosity, |surroundings| {
        run_on_lab(&request, cases, surroundings)
    })?;
    let pairs = cases.iter().zip(&ran.answered);
    Ok(Told {
        system: format!("Linux {}", ran.linux),
        answers: pairs
            .map(|(case, answered)| describe(case, answered))
            .collect(),
    })
}

//! `pagetoll conformance`: the same cases on the simulated and the real system.

mod vfio;

use std::time::Duration;

use anyhow::{Context, Result};
use pagetoll_conformance::{Case, all, describe, recorded};
use pagetoll_lab::apt::Freshness;
use pagetoll_lab::conformance::{Request, run as run_on_lab};
use pagetoll_systems::conformance::run as run_on_sim;
use serde::Serialize;

use super::{in_lab, pretty_json};
use crate::args::{ConformanceArgs, ConformanceSuite, ConformanceSystems, ListFormat, Verbosity};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::document::{Document, Section};
use crate::render::table::{Align, Table};
use crate::render::text;
use crate::request;

/// A guest that says nothing for so long is given up; a case takes below a millisecond.
const SILENCE: Duration = Duration::from_secs(60);
/// Characters of an answer in the table.
const WIDTH: usize = 44;
/// What the table calls the answers in `conformance/`.
const RECORDED: &str = "Xen 4.17, recorded";

/// Runs the cases and compares.
pub(crate) fn run(args: &ConformanceArgs, verbosity: Verbosity) -> Result<Outcome> {
    let compared = match args.suite {
        ConformanceSuite::Xen => compare(args, verbosity)?,
        ConformanceSuite::Vfio => vfio::compare(args, verbosity)?,
    };
    output::print(&match args.format {
        ListFormat::Text => text::document(&document(&compared)),
        ListFormat::Json => pretty_json(&compared)?,
    })?;
    let all_equal = compared.equal == compared.cases.len();
    Ok(if all_equal {
        Outcome::Success
    } else {
        Outcome::CheckFailed
    })
}

/// All answers side by side.
#[derive(Serialize)]
struct Compared {
    sim: String,
    real: String,
    equal: usize,
    cases: Vec<ComparedCase>,
}

#[derive(Serialize)]
struct ComparedCase {
    case: String,
    about: String,
    equal: bool,
    steps: Vec<ComparedStep>,
}

#[derive(Serialize)]
struct ComparedStep {
    step: String,
    sim: String,
    real: String,
}

/// One system's answers to all cases, and what it is.
struct Told {
    system: String,
    answers: Vec<Vec<String>>,
}

/// A case, as far as the table shows it.
struct Asked {
    name: String,
    about: String,
    steps: Vec<String>,
}

impl From<&Case> for Asked {
    fn from(case: &Case) -> Self {
        Self {
            name: case.name.clone(),
            about: case.about.clone(),
            steps: case.steps.iter().map(|step| step.text.clone()).collect(),
        }
    }
}

fn compare(args: &ConformanceArgs, verbosity: Verbosity) -> Result<Compared> {
    let mut cases = all().context("a script of this program is damaged")?;
    cases.retain(|case| case.name.contains(&args.case));
    check_some(args, cases.len())?;
    let both = match args.on {
        ConformanceSystems::Both => (simulated(&cases), on_lab(args, &cases, verbosity)?),
        ConformanceSystems::Sim => (simulated(&cases), from_record(&cases)),
        ConformanceSystems::Lab => (from_record(&cases), on_lab(args, &cases, verbosity)?),
    };
    let asked: Vec<_> = cases.iter().map(Asked::from).collect();
    compared(args, &asked, both)
}

fn check_some(args: &ConformanceArgs, cases: usize) -> Result<(), Failure> {
    if cases > 0 {
        return Ok(());
    }
    let problem = format!("--case {}: no case is called so", args.case);
    Err(Failure::BadInput(problem))
}

/// Sets the answers side by side, and records the real one's where that is asked for.
fn compared(
    args: &ConformanceArgs,
    cases: &[Asked],
    (sim, real): (Told, Told),
) -> Result<Compared> {
    if let Some(path) = &args.record {
        output::write(&record(cases, &real), Some(path))?;
    }
    let pairs = sim.answers.iter().zip(&real.answers);
    let compared: Vec<_> = cases
        .iter()
        .zip(pairs)
        .map(|(case, (sim, real))| side_by_side(case, sim, real))
        .collect();
    Ok(Compared {
        sim: sim.system,
        real: real.system,
        equal: compared.iter().filter(|case| case.equal).count(),
        cases: compared,
    })
}

fn simulated(cases: &[Case]) -> Told {
    Told {
        system: "simulated Xen".to_owned(),
        answers: cases
            .iter()
            .map(|case| describe(case, &run_on_sim(case)))
            .collect(),
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
        xen: args.images.xen.parse()?,
        freshness: Freshness::Cached,
        keep_logs: args.keep_logs.clone(),
        silence: SILENCE,
    };
    let ran = in_lab::run(verbosity, |surroundings| {
        run_on_lab(&request, cases, surroundings)
    })?;
    let pairs = cases.iter().zip(&ran.answered);
    Ok(Told {
        system: format!("Xen {} under Linux {}", ran.xen, ran.linux),
        answers: pairs
            .map(|(case, answered)| describe(case, answered))
            .collect(),
    })
}

/// The answers as `conformance/` keeps them.
fn record(cases: &[Asked], real: &Told) -> String {
    let mut text = format!(
        "# What {} answered. Written by pagetoll conformance --record.\n",
        real.system
    );
    for (case, answers) in cases.iter().zip(&real.answers) {
        text += &format!("case {}\n", case.name);
        text.extend(answers.iter().map(|answer| format!("  {answer}\n")));
    }
    text
}

fn side_by_side(case: &Asked, sim: &[String], real: &[String]) -> ComparedCase {
    let answer = |answers: &[String], index: usize| {
        answers
            .get(index)
            .cloned()
            .unwrap_or_else(|| "none".to_owned())
    };
    let step = |(index, step): (usize, &String)| ComparedStep {
        step: step.clone(),
        sim: answer(sim, index),
        real: answer(real, index),
    };
    ComparedCase {
        case: case.name.clone(),
        about: case.about.clone(),
        equal: sim == real,
        steps: case.steps.iter().enumerate().map(step).collect(),
    }
}

fn document(compared: &Compared) -> Document {
    let title = format!(
        "conformance: {} of {} cases are answered alike",
        compared.equal,
        compared.cases.len()
    );
    let facts = vec![
        ("sim".to_owned(), compared.sim.clone()),
        ("real".to_owned(), compared.real.clone()),
    ];
    Document {
        title,
        sections: vec![
            Section::facts("", facts),
            Section::table(
                "Cases (the first answer that differs, else the last)",
                table(&compared.cases),
            ),
            Section::list("Differences", differences(&compared.cases)),
        ],
    }
}

fn table(cases: &[ComparedCase]) -> Table {
    let mut table = Table::new([
        ("case", Align::Left),
        ("steps", Align::Right),
        ("sim", Align::Left),
        ("real", Align::Left),
        ("equal", Align::Left),
    ]);
    for case in cases {
        let differs = case.steps.iter().find(|step| step.sim != step.real);
        let shown = differs.or_else(|| case.steps.last());
        let (sim, real) = shown.map_or(("", ""), |step| (&step.sim, &step.real));
        table.row([
            case.case.clone(),
            case.steps.len().to_string(),
            shortened(sim),
            shortened(real),
            if case.equal { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

fn shortened(answer: &str) -> String {
    answer.chars().take(WIDTH).collect()
}

fn differences(cases: &[ComparedCase]) -> Vec<String> {
    let mut lines = Vec::new();
    for case in cases.iter().filter(|case| !case.equal) {
        lines.push(format!("{}: {}", case.case, case.about));
        for step in &case.steps {
            let mark = if step.sim == step.real { " " } else { ">" };
            lines.push(format!(
                "{mark} {}: sim {}, real {}",
                step.step, step.sim, step.real
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(real: &[&str]) -> ComparedCase {
        let script = "case c\nabout shows\npages a\nload a[0]\nload a[1]\n";
        let case = &pagetoll_conformance::parse("x", script).unwrap()[0];
        let real: Vec<String> = real.iter().map(|&word| word.to_owned()).collect();
        side_by_side(&case.into(), &["0x0".to_owned(), "0x1".to_owned()], &real)
    }

    #[test]
    fn a_difference_is_told_step_by_step() {
        assert!(compared(&["0x0", "0x1"]).equal);
        let cases = [compared(&["0x0", "0x2"])];
        let lines = differences(&cases);
        assert_eq!(lines[0], "c: shows");
        assert_eq!(lines[2], "> load a[1]: sim 0x1, real 0x2");
        assert!(
            text::document(&document(&Compared {
                sim: "s".into(),
                real: "r".into(),
                equal: 0,
                cases: cases.into(),
            }))
            .contains("0 of 1 cases")
        );
    }

    #[test]
    fn an_answer_that_is_missing_is_a_difference() {
        assert!(!compared(&["0x0"]).equal);
    }
}

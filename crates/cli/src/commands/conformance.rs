//! `pagetoll conformance`: the same cases on the simulated and the real system.

mod suite;
mod suites;

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use self::suite::{Answers, Asked, Comparison, Given};
use super::write_list;
use crate::args::{ConformanceArgs, ConformanceSuite, Verbosity};
use crate::failure::Outcome;
use crate::output::{self, Destination};
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, Table};

/// Characters of an answer in the table.
const WIDTH: usize = 44;

/// Runs the cases and compares.
pub(crate) fn run(args: &ConformanceArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    let comparison = match args.suite {
        ConformanceSuite::Xen => suites::XEN.compare(args, verbosity)?,
        ConformanceSuite::Vfio => suites::VFIO.compare(args, verbosity)?,
        ConformanceSuite::Kvm => suites::KVM.compare(args, verbosity)?,
    };
    if let Some(path) = &args.record {
        output::write(record(&comparison.asked, &comparison.real), Some(path))?;
    }
    let compared = Compared::new(&comparison);
    write_list(document(&compared), &compared, &destination)?;
    Ok(compared.outcome())
}

/// All answers side by side.
#[derive(Serialize)]
struct Compared {
    sim: String,
    real: String,
    equal: usize,
    skipped: usize,
    cases: Vec<ComparedCase>,
}

#[derive(Serialize)]
struct ComparedCase {
    case: String,
    about: String,
    equal: bool,
    /// The feature that a system lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    /// Mechanisms that the model has as well, and that get this case wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrong_by: Vec<&'static str>,
    steps: Vec<ComparedStep>,
}

#[derive(Serialize)]
struct ComparedStep {
    step: String,
    sim: String,
    real: String,
}

impl Compared {
    fn new(Comparison { asked, sim, real }: &Comparison) -> Self {
        let pairs = sim.given.iter().zip(&real.given);
        let cases: Vec<_> = asked
            .iter()
            .zip(pairs)
            .map(|(case, (sim, real))| side_by_side(case, sim, real))
            .collect();
        Self {
            sim: sim.system.clone(),
            real: real.system.clone(),
            equal: cases.iter().filter(|case| case.equal).count(),
            skipped: cases.iter().filter(|case| case.skipped.is_some()).count(),
            cases,
        }
    }

    fn outcome(&self) -> Outcome {
        let all = self.cases.len();
        match self.equal {
            _ if self.skipped == all => Outcome::Lacking,
            equal if equal + self.skipped == all => Outcome::Success,
            _ => Outcome::CheckFailed,
        }
    }
}

/// The real one's answers as `conformance/` keeps them.
fn record(cases: &[Asked], real: &Answers) -> String {
    let mut text = format!(
        "# What {} answered. Written by pagetoll conformance --record.\n",
        real.system
    );
    for (case, given) in cases.iter().zip(&real.given) {
        if let Given::Answers(answers) = given {
            text += &format!("case {}\n", case.name);
            text.extend(answers.iter().map(|answer| format!("  {answer}\n")));
        }
    }
    text
}

fn side_by_side(case: &Asked, sim: &Given, real: &Given) -> ComparedCase {
    let mut compared = ComparedCase {
        case: case.name.clone(),
        about: case.about.clone(),
        equal: false,
        skipped: None,
        wrong_by: case.wrong_by.clone(),
        steps: Vec::new(),
    };
    let (sim, real) = match (sim, real) {
        (Given::Answers(sim), Given::Answers(real)) => (sim, real),
        (Given::Skipped(why), _) | (_, Given::Skipped(why)) => {
            compared.skipped = Some(why.clone());
            return compared;
        }
    };
    let answer = |answers: &[String], index: usize| {
        let none = || "none".to_owned();
        answers.get(index).cloned().unwrap_or_else(none)
    };
    let step = |(index, step): (usize, &String)| ComparedStep {
        step: step.clone(),
        sim: answer(sim, index),
        real: answer(real, index),
    };
    compared.equal = sim == real;
    compared.steps = case.steps.iter().enumerate().map(step).collect();
    compared
}

fn document(compared: &Compared) -> Document {
    let asked = compared.cases.len() - compared.skipped;
    let mut title = format!(
        "conformance: {} of {asked} cases are answered alike",
        compared.equal
    );
    if compared.skipped > 0 {
        title += &format!(", {} skipped", compared.skipped);
    }
    let facts = vec![
        Fact::new("sim", &compared.sim),
        Fact::new("real", &compared.real),
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
            Section::list("Mechanisms that get a case wrong", wrong(&compared.cases)),
            Section::list("Skipped", skipped(&compared.cases)),
        ],
    }
}

fn table(cases: &[ComparedCase]) -> Table {
    let mut table = Table::new([
        Column::left("case"),
        Column::right("steps"),
        Column::left("sim"),
        Column::left("real"),
        Column::left("equal"),
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
            match (case.equal, &case.skipped) {
                (true, _) => "yes",
                (false, Some(_)) => "skipped",
                (false, None) => "NO",
            }
            .to_owned(),
        ]);
    }
    table
}

fn shortened(answer: &str) -> String {
    answer.chars().take(WIDTH).collect()
}

/// Mechanisms that answer otherwise than systems do, with their cases.
fn wrong(cases: &[ComparedCase]) -> Vec<String> {
    let mut by_mechanism: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in cases {
        for mechanism in &case.wrong_by {
            by_mechanism.entry(mechanism).or_default().push(&case.case);
        }
    }
    listed(by_mechanism)
}

fn differences(cases: &[ComparedCase]) -> Vec<String> {
    let mut lines = Vec::new();
    let differ = |case: &&ComparedCase| !case.equal && case.skipped.is_none();
    for case in cases.iter().filter(differ) {
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

/// Reasons, each with its cases.
fn skipped(cases: &[ComparedCase]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in cases {
        if let Some(why) = &case.skipped {
            reasons.entry(why).or_default().push(&case.case);
        }
    }
    listed(reasons)
}

/// A line for each group of cases.
fn listed(groups: BTreeMap<&str, Vec<&str>>) -> Vec<String> {
    let lines = groups.into_iter();
    lines
        .map(|(group, cases)| format!("{group}: {}", cases.join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_render::{Width, text};

    use super::*;

    fn given(answers: &[&str]) -> Given {
        Given::Answers(answers.iter().map(|&word| word.to_owned()).collect())
    }

    fn compared(real: Given) -> Compared {
        let case = Asked {
            name: "c".into(),
            about: "shows".into(),
            steps: vec!["load a[0]".into(), "load a[1]".into()],
            wrong_by: Vec::new(),
        };
        let answers = |system: &str, given| Answers {
            system: system.into(),
            given: vec![given],
        };
        Compared::new(&Comparison {
            asked: vec![case],
            sim: answers("s", given(&["0x0", "0x1"])),
            real: answers("r", real),
        })
    }

    #[test]
    fn a_difference_is_reported_step_by_step() {
        assert_eq!(compared(given(&["0x0", "0x1"])).outcome(), Outcome::Success);
        let compared = compared(given(&["0x0", "0x2"]));
        assert_eq!(compared.outcome(), Outcome::CheckFailed);
        let lines = differences(&compared.cases);
        assert_eq!(lines[0], "c: shows");
        assert_eq!(lines[2], "> load a[1]: sim 0x1, real 0x2");
        assert!(text::document(&document(&compared), Width::Unlimited).contains("0 of 1 cases"));
    }

    #[test]
    fn an_answer_that_is_missing_is_a_difference() {
        let compared = compared(given(&["0x0"]));
        assert_eq!(compared.outcome(), Outcome::CheckFailed);
    }

    #[test]
    fn a_skipped_case_is_neither_alike_nor_different() {
        let compared = compared(Given::Skipped("no such flag".into()));
        assert_eq!(compared.outcome(), Outcome::Lacking);
        let text = text::document(&document(&compared), Width::Unlimited);
        assert!(
            text.contains("0 of 0 cases are answered alike, 1 skipped"),
            "{text}"
        );
        assert!(text.contains("no such flag: c"), "{text}");
    }
}

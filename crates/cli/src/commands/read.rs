//! `pagetoll read`: what a user recorded, as costs for each unit of its work, and two captures of the same work compared.

mod document;
mod dump;
mod how;
mod live;
mod why;

use anyhow::Result;
use pagetoll_advice::{Advice, OnCapture, Rules, Undecided};
use pagetoll_captures::Comparison;
use pagetoll_observation::{Observation, Summed};
use serde::Serialize;

use super::recorded::{deliver, observed, symbols};
use super::write_list;
use crate::args::ReadArgs;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;

/// A capture in JSON.
#[derive(Serialize)]
struct Read<'a> {
    #[serde(flatten)]
    observation: &'a Observation,
    /// Its threads in short, where there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    summed: Option<Summed>,
    /// Rules that fire.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<Advice<'a>>,
    /// Rules of which some conditions hold and others cannot be judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<Undecided<'a>>,
}

/// Reads a capture, or two. They are read as streams, whatever their size.
pub(crate) fn run(args: &ReadArgs) -> Result<Outcome> {
    if let (true, Some(source)) = (args.script, &args.how) {
        return how::script(source);
    }
    let destination = Destination::of_list(&args.output)?;
    if let Some(source) = &args.how {
        return how::run(source, &destination);
    }
    if let (true, Some(file)) = (args.why, &args.file) {
        return why::run(file, args, &destination);
    }
    let symbols = symbols(&args.symbols)?;
    if let (true, Some(file)) = (args.dump, &args.file) {
        return dump::run(file, &symbols);
    }
    let first = match (&args.file, args.live) {
        (Some(file), _) => observed(file, &symbols, args.trace_cmd)?,
        (None, Some(pid)) => live::observed(pid, args.during)?,
        (None, None) => return Err(Failure::BadInput("no FILE to read".to_owned()).into()),
    };
    let Some(other) = &args.compare else {
        let rules = Rules::embedded()?;
        let OnCapture { advice, undecided } = rules.on(&first);
        let in_part = undecided.into_iter().filter(|rule| !rule.found.is_empty());
        let read = Read {
            observation: &first,
            summed: (!args.threads).then(|| first.summed()).flatten(),
            advice,
            undecided: in_part.collect(),
        };
        write_list(document::of(&read), &read, &destination)?;
        return Ok(deliver(&[&first.capture]));
    };
    let second = observed(other, &symbols, args.trace_cmd)?;
    let comparison =
        Comparison::new(&first, &second).map_err(|error| Failure::BadInput(error.to_string()))?;
    let share = args.tolerance / 100.0;
    write_list(
        document::of_comparison(&comparison, share),
        &comparison,
        &destination,
    )?;
    let regressed = comparison.regressions(share).next().is_some();
    Ok(match deliver(&[&first.capture, &second.capture]) {
        Outcome::Success if regressed => Outcome::CheckFailed,
        outcome => outcome,
    })
}

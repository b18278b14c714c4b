//! `pagetoll advise`: rules applied to a capture, or to this host.

mod document;

pub(super) use document::remedy;

use std::path::Path;

use anyhow::Result;
use pagetoll_advice::{Facts, Rules};
use pagetoll_observation::Capture;
use serde::Serialize;

use super::recorded::{deliver, observed, symbols};
use super::write_list;
use crate::args::AdviseArgs;
use crate::failure::Outcome;
use crate::output::Destination;

/// Advice in JSON: on a capture, or on a host.
#[derive(Serialize)]
struct Advised<'a, R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<&'a Capture>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a Facts>,
    #[serde(flatten)]
    rules: R,
}

/// Tries all rules.
pub(crate) fn run(args: &AdviseArgs) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    match &args.file {
        Some(file) => on_capture(file, args, &destination),
        None => on_host(&destination),
    }
}

fn on_capture(file: &Path, args: &AdviseArgs, destination: &Destination) -> Result<Outcome> {
    let observation = observed(file, &symbols(&args.symbols)?, args.trace_cmd)?;
    let rules = Rules::embedded()?;
    let advised = Advised {
        capture: Some(&observation.capture),
        host: None,
        rules: rules.on(&observation),
    };
    let document = document::of_capture(&observation.capture, &advised.rules);
    write_list(document, &advised, destination)?;
    Ok(deliver(&[&observation.capture]))
}

fn on_host(destination: &Destination) -> Result<Outcome> {
    let facts = crate::doctor::facts::of_this_host();
    let rules = Rules::embedded()?;
    let advised = Advised {
        capture: None,
        host: Some(&facts),
        rules: rules.before(&facts),
    };
    let document = document::of_host(&facts, &advised.rules)?;
    write_list(document, &advised, destination)?;
    Ok(Outcome::Success)
}

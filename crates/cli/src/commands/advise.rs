//! `pagetoll advise`: what rules say of a capture, or of this host.

mod document;

use std::path::Path;

use anyhow::Result;
use pagetoll_advice::{Advice, Facts, Rules};
use pagetoll_captures::Capture;
use pagetoll_render::Format;
use serde::Serialize;

use super::print_list;
use super::recorded::{deliver, observed, symbols};
use crate::args::AdviseArgs;
use crate::failure::Outcome;

/// Advice in JSON: on a capture, or on a host.
#[derive(Serialize)]
struct Advised<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<&'a Capture>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a Facts>,
    advice: Vec<Advice<'a>>,
}

/// Tries all rules.
pub(crate) fn run(args: &AdviseArgs) -> Result<Outcome> {
    match &args.file {
        Some(file) => on_capture(file, args),
        None => on_host(args.format),
    }
}

fn on_capture(file: &Path, args: &AdviseArgs) -> Result<Outcome> {
    let observation = observed(file, &symbols(&args.symbols)?)?;
    let rules = Rules::embedded()?;
    let advised = Advised {
        capture: Some(&observation.capture),
        host: None,
        advice: rules.on(&observation),
    };
    let document = document::of_capture(&observation.capture, &advised.advice);
    print_list(document, &advised, args.format)?;
    Ok(deliver(&[&observation.capture]))
}

fn on_host(format: Format) -> Result<Outcome> {
    let facts = crate::doctor::facts::of_this_host();
    let rules = Rules::embedded()?;
    let advised = Advised {
        capture: None,
        host: Some(&facts),
        advice: rules.before(&facts),
    };
    let document = document::of_host(&facts, &advised.advice)?;
    print_list(document, &advised, format)?;
    Ok(Outcome::Success)
}

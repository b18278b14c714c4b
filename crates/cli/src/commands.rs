//! One module for each command: from its arguments to its output.

mod advise;
mod bill;
mod bisect;
mod cache;
mod calibrate;
mod completions;
mod conformance;
mod count;
mod deliver;
mod diff;
mod doctor;
mod fix;
mod graph;
mod idle;
mod man;
mod read;
mod recorded;
mod report;
mod routes;
mod search;
mod sweep;
mod validate;
mod watched;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context as _, Result};
use pagetoll_backend::input;
use pagetoll_render::document::Document;
use serde::Serialize;

use crate::args::{Cli, Command};
use crate::failure::{Failure, Outcome};
use crate::output::Destination;
use crate::{parent, signals};

/// Runs a subcommand.
pub(crate) fn run(cli: Cli) -> Result<Outcome> {
    let verbosity = cli.verbosity();
    match cli.command {
        Command::Bill(args) => {
            parent::end_with_it();
            bill::run(&args, verbosity)
        }
        Command::Count(mut args) => {
            parent::end_with_it();
            count::run(&mut args, verbosity)
        }
        Command::Report(args) => report::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Bisect(args) => bisect::run(&args, verbosity),
        Command::Sweep(args) => sweep::run(&args, verbosity),
        Command::Routes(args) => routes::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Read(args) => read::run(&args),
        Command::Conformance(args) => conformance::run(&args, verbosity),
        Command::Search(args) => search::run(&args),
        Command::Fix(args) => fix::run(args.command, verbosity),
        Command::Cache(args) => cache::run(&args, verbosity),
        Command::Calibrate(args) => calibrate::run(&args, verbosity),
        Command::Validate(args) => validate::run(&args, verbosity),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::RestoreClone { parent } => {
            parent::end_at_once_with(parent);
            let (input, output) = (io::stdin(), io::stdout());
            pagetoll_live::restore_clone(&mut input.lock(), &mut output.lock())?;
            Ok(Outcome::Success)
        }
        Command::MigrateDestination { parent } => {
            parent::end_at_once_with(parent);
            let (input, output) = (io::stdin(), io::stdout());
            pagetoll_live::migrate_destination(input.as_fd(), &mut output.lock())?;
            Ok(Outcome::Success)
        }
        Command::Guard { journal } => {
            signals::ignore().context("cannot ignore signals")?;
            Ok(match pagetoll_live::guard(&journal) {
                true => Outcome::Success,
                false => Outcome::Lacking,
            })
        }
    }
}

/// Opens a file to be read; `-` is standard input.
fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let refuse = |error| Failure::BadInput(format!("{}: {error}", path.display()));
    Ok(Box::new(input::open(path).map_err(refuse)?))
}

/// Name of a file in messages.
fn name_of(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Writes a list to `to`: `data` in JSON, `document` otherwise.
fn write_list(document: Document, data: &impl Serialize, to: &Destination) -> Result<()> {
    let text = pagetoll_render::list(document, data, to.format, to.width())?;
    Ok(to.write(&text)?)
}

#[cfg(test)]
fn sample_bill() -> pagetoll_bill::Bill {
    let sample = include_bytes!("../../render/tests/data/sample-bill.json");
    serde_json::from_slice(sample).unwrap()
}

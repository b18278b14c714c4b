//! The order of a command line that begins with `pagetoll bill`.

use anyhow::Result;
use clap::FromArgMatches;
use pagetoll_bill::{Backend, Spec, options};

use crate::args::{BillArgs, Cli, Command};
use crate::backends;
use crate::failure::Failure;

/// An order that its backend accepts.
pub(in crate::commands) struct Checked {
    pub(in crate::commands) backend: Backend,
    pub(in crate::commands) spec: Spec,
}

/// The order of a command line that begins with `pagetoll bill`, as its backend accepts it.
pub(in crate::commands) fn order(words: &[String], command: &mut clap::Command) -> Result<Checked> {
    let parsed = command
        .try_get_matches_from_mut(words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| Failure::BadInput(in_short(&error)))?;
    let Command::Bill(args) = parsed.command else {
        return Err(Failure::BadInput("not a bill".to_owned()).into());
    };
    let BillArgs {
        spec, given, on, ..
    } = *args;
    let backend = backends::chosen(spec.route, on, &given).kind;
    options::check(&given, spec.route, backend).map_err(pagetoll_backend::Error::from)?;
    backends::of(backend).prepare(&spec)?;
    Ok(Checked { backend, spec })
}

/// Message of clap without its hints.
fn in_short(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

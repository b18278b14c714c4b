//! From a plan to jobs: each is parsed and checked as if it had been typed, before anything runs.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory;
use pagetoll_backend::{Stop, input};
use pagetoll_bill::Backend;
use pagetoll_sweep::plan::HOST;
use pagetoll_sweep::{Job, Plan, PlanError, Settings};

use super::inputs::Inputs;
use super::order::{Checked, order};
use crate::args::Cli;
use crate::command_line::command_line;
use crate::failure::Failure;

/// A larger file is no plan, in bytes. Assumed: as many jobs as a plan may have, each included by its route alone.
const MOST_BYTES: u64 = 4 << 20;
/// Options that a plan cannot have: jobs would write the same files, print no bill, or boot other inputs than those in
/// their ids.
const REFUSED: [&str; 9] = [
    "format",
    "output",
    "flamegraph",
    "timeline",
    "keep-logs",
    "dry-run",
    "refresh",
    "verbose",
    "help",
];

/// The jobs of the plan in a file.
pub(in crate::commands) fn of_plan(file: &Path, stop: &Stop) -> Result<Vec<Job>> {
    let name = file.display().to_string();
    let text = input::read_text(file, MOST_BYTES)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    let plan = Plan::parse(&name, &text, &option_names()).map_err(refused)?;
    let settings = plan.jobs(&name, stop).map_err(refused)?;
    let (mut command, mut inputs) = (Cli::command(), Inputs::new(stop));
    let job = |settings: Settings| {
        stop.check().map_err(pagetoll_backend::Error::from)?;
        job(settings, &mut command, &mut inputs).with_context(|| name.clone())
    };
    settings.into_iter().map(job).collect()
}

fn refused(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Stopped(stopped) => pagetoll_backend::Error::from(stopped).into(),
        other => Failure::BadInput(other.to_string()).into(),
    }
}

/// The job of these settings, checked. `command` is the program's: it takes as long to make as all else together.
pub(in crate::commands) fn job(
    settings: Settings,
    command: &mut clap::Command,
    inputs: &mut Inputs<'_>,
) -> Result<Job> {
    let words = ["pagetoll".to_owned()]
        .into_iter()
        .chain(settings.arguments());
    let words: Vec<_> = words.collect();
    let line = || command_line(words.iter().map(Into::into));
    let checked = checked(&words, command, &settings).with_context(line)?;
    let inputs = inputs.of(&checked).with_context(line)?;
    Ok(Job::new(settings, &inputs, env!("CARGO_PKG_VERSION")))
}

fn checked(words: &[String], command: &mut clap::Command, settings: &Settings) -> Result<Checked> {
    let checked = order(words, command)?;
    let backend = checked.backend;
    match settings.host() {
        Some(host) if backend != Backend::Live => Err(Failure::BadInput(format!(
            "{HOST} = {host}: not supported on {backend}, whose figures do not depend on the machine; use on = live"
        ))
        .into()),
        _ => Ok(checked),
    }
}

/// The options of a bill that a plan may use, by their long names.
pub(in crate::commands) fn option_names() -> Vec<String> {
    let command = Cli::command();
    let bill = command.find_subcommand("bill");
    // All routes have the same options.
    let route = bill.and_then(|bill| bill.get_subcommands().next());
    let options = route.into_iter().flat_map(clap::Command::get_arguments);
    let names = options.filter_map(clap::Arg::get_long);
    let allowed = names.filter(|name| !REFUSED.contains(name));
    allowed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Opt;

    use super::*;

    #[test]
    fn a_plan_may_use_every_option_of_a_bill_that_writes_no_file() {
        let names = option_names();
        for option in Opt::all() {
            let is_listed = names.iter().any(|name| name == option.name);
            assert_eq!(is_listed, !REFUSED.contains(&option.name), "{option}");
        }
        assert!(names.contains(&"on".to_owned()), "{names:?}");
    }
}

//! `pagetoll completions`: scripts for shells.

use anyhow::Result;
use clap::CommandFactory;
use clap::builder::{PossibleValue, PossibleValuesParser};
use pagetoll_bill::Route;
use pagetoll_fix::catalogue;
use pagetoll_sim::costs;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Outcome;
use crate::output;

/// Debian's suites, whose kernels are completed.
const SUITES: [&str; 6] = [
    "bookworm",
    "bookworm-backports",
    "trixie",
    "trixie-backports",
    "forky",
    "sid",
];

/// Prints the completion script of a shell.
pub(crate) fn run(args: &CompletionsArgs) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(), "pagetoll", &mut script);
    output::write(script, None)?;
    Ok(Outcome::Success)
}

/// The command line with usual values for options that take any text.
fn completed() -> clap::Command {
    let fixes: Vec<_> = catalogue::all()
        .iter()
        .map(|fix| format!("fix:{}", fix.name))
        .collect();
    let suites = SUITES.map(|suite| format!("debian:{suite}"));
    let mut kernels = vec!["debian".to_owned(), "fix:none".to_owned()];
    kernels.extend(suites.into_iter().chain(fixes));
    let hosts = costs::names();
    Cli::command().mut_subcommand("bill", |bill| {
        Route::ALL.iter().fold(bill, |bill, &route| {
            let mechanisms: Vec<_> = route.mechanisms().map(|one| one.name()).collect();
            bill.mut_subcommand(route.name(), |command| {
                let command = with_values(command, "mechanism", mechanisms);
                let command = with_values(command, "kernel", kernels.clone());
                let command = with_values(command, "xen", kernels.clone());
                with_values(command, "costs", hosts.clone())
            })
        })
    })
}

/// The command with these values for an option, where it has it.
fn with_values<S: Into<PossibleValue>>(
    command: clap::Command,
    option: &'static str,
    values: Vec<S>,
) -> clap::Command {
    if command
        .get_arguments()
        .all(|argument| argument.get_id() != option)
    {
        return command;
    }
    command.mut_arg(option, |argument| {
        argument.value_parser(PossibleValuesParser::new(values))
    })
}

//! `pagetoll generate`: manual pages and shell completions, for packagers and `make man`.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::Shell;
use pagetoll_bill::Route;
use pagetoll_fix::catalogue;
use pagetoll_sim::costs;

use crate::args::{Cli, GenerateArgs};
use crate::failure::{Failure, Outcome};

/// The shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Of Debian, whose kernels are completed.
const SUITES: [&str; 6] = [
    "bookworm",
    "bookworm-backports",
    "trixie",
    "trixie-backports",
    "forky",
    "sid",
];

/// Writes one manual page for each command, and one completion script for each shell.
pub(crate) fn run(args: &GenerateArgs) -> Result<Outcome> {
    let folder = &args.folder;
    write(folder).map_err(|source| Failure::Output {
        to: folder.display().to_string(),
        source,
    })?;
    Ok(Outcome::Success)
}

fn write(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut completed(), "pagetoll", folder)?;
    }
    clap_mangen::generate_to(Cli::command(), folder)
}

/// The command line with the values that options of free text usually have: what each means is settled when it is used.
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

/// The same command, where it has that option.
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

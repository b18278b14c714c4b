//! `pagetoll man`: manual pages.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Prints the page of a command, or writes those of all.
pub(crate) fn run(args: &ManArgs) -> Result<Outcome> {
    match &args.folder {
        Some(folder) => write_all(folder).map_err(|source| Failure::Output {
            to: folder.display().to_string(),
            source,
        })?,
        None => output::write(page(&args.command)?, None)?,
    }
    Ok(Outcome::Success)
}

fn write_all(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

fn page(words: &[String]) -> Result<Vec<u8>> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in words {
        command = command
            .find_subcommand(word)
            .ok_or_else(|| unknown(words, command))?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

fn unknown(words: &[String], command: &Command) -> Failure {
    let subcommands = command.get_subcommands();
    let names: Vec<_> = subcommands
        .filter(|subcommand| !subcommand.is_hide_set())
        .map(Command::get_name)
        .collect();
    let problem = match names.as_slice() {
        [] => format!("no such command; {} has no subcommands", command.get_name()),
        names => format!("no such command; expected one of {}", names.join(", ")),
    };
    Failure::BadInput(format!("{}: {problem}", words.join(" ")))
}

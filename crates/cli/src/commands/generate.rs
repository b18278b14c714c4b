//! `pagetoll generate`: manual pages and shell completions, for packagers and `make man`.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, GenerateArgs};
use crate::failure::{Failure, Outcome};

/// The shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

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
        clap_complete::generate_to(shell, &mut Cli::command(), "pagetoll", folder)?;
    }
    clap_mangen::generate_to(Cli::command(), folder)
}

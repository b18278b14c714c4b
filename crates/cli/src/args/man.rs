//! Arguments of `man`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll man bill unmap | man -l -
      Read one page
  pagetoll man --folder ~/.local/share/man/man1
      Install all pages, for man pagetoll-bill-unmap";

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command to describe, such as bill unmap [default: pagetoll itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this folder; create it if missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) folder: Option<PathBuf>,
}

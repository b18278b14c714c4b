//! How and where results are written.

use std::path::PathBuf;

use clap::Args;
use pagetoll_render::{Format, Kind};

use super::values::format;

/// How and where a bill is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Form of the bill; without this, as the extension of --output says, else text
    #[arg(long, value_name = "FORMAT", value_parser = format(Kind::Bill))]
    pub(crate) format: Option<Format>,
    /// Writes the bill to this file; a file that is there is kept as FILE.old
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How and where a comparison or a list is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ListOutputArgs {
    /// Form of the result; without this, as the extension of --output says, else text
    #[arg(long, value_name = "FORMAT", value_parser = format(Kind::List))]
    pub(crate) format: Option<Format>,
    /// Writes the result to this file; a file that is there is kept as FILE.old
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

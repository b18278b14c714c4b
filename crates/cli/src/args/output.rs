//! Form and destination of results.

use std::path::PathBuf;

use clap::Args;
use pagetoll_render::{Format, Kind};

use super::values::format;

/// Form and destination of a bill.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write in this format [default: by the extension of --output, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format(Kind::Bill))]
    pub(crate) format: Option<Format>,
    /// Write to this file; keep an existing one as FILE.old
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Form and destination of a comparison or a list.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ListOutputArgs {
    /// Write in this format [default: by the extension of --output, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format(Kind::List))]
    pub(crate) format: Option<Format>,
    /// Write to this file; keep an existing one as FILE.old
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

//! Options of `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll diff old.json new.json
      What got dearer by more than half a percent, and which toll it was
  pagetoll diff --tolerance 2 --format md base.json this.json > comment.md
      For a pull request; exit code 1 gates the job

Exact counts are compared with the tolerance. Measured costs are dearer when a permutation test of the runs says so (p at \
most 0.05, at least 4 runs each) and the difference is above the tolerance and the noise of both. Modelled costs are dearer \
when their intervals do not meet.";

/// What `diff` was told.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The bill to compare with, in JSON; - reads standard input
    pub(crate) old: PathBuf,
    /// The bill that is compared, of the same route
    pub(crate) new: PathBuf,
    /// Percent by which exact counts may differ and still are equal
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// How the comparison is printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: DiffFormat,
}

/// The forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Tables for a terminal
    Text,
    /// Tables as GitHub shows them
    Md,
    /// For programs
    Json,
}

fn percent(text: &str) -> Result<f64, String> {
    let parsed = text
        .parse()
        .ok()
        .filter(|value| (0.0..=100.0).contains(value));
    parsed.ok_or_else(|| "expected a number from 0 to 100".to_owned())
}

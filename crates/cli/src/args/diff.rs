//! Arguments of `diff`.

use std::path::PathBuf;

use clap::Args;
use pagetoll_compare::diff::MissingRows;

use super::{ListOutputArgs, values};

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll diff old.json new.json
      List regressions above half a percent, and the tolls responsible
  pagetoll diff two-kernels.json --row munmap-zero --row munmap-written
      Compare the two kernels of one bill, at munmap alone
  pagetoll diff --tolerance 2 --format md base.json this.json > comment.md
      Comment on a pull request; exit code 1 gates the job

Exact counts are compared with the tolerance. Measured costs regress when their intervals \
do not meet, the difference is above the tolerance, and a permutation test of the runs says so (p at most 0.05, at least 4 \
runs each); those of a busy host are undecided. Modelled costs regress when their intervals do not meet.

Exit code 1: something regressed, enters the hypervisor more often, lost a bit or failed a check; a row or a figure is \
missing in the new bill (accepted with --allow-missing); or a row was billed on another memory layout. Exit code 2: bills \
that cannot be compared: of different routes, units, backends, --pages or guest RAM.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Bill to compare with, in JSON; - for stdin
    pub(crate) old: PathBuf,
    /// Bill to compare, of the same route [default: the second of the two kernels in OLD]
    pub(crate) new: Option<PathBuf>,
    /// Compare only rows with these words in their names, as 'munmap-zero, native'; repeatable
    #[arg(long, value_name = "ROW")]
    pub(crate) row: Vec<String>,
    /// Tolerate this difference of exact counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Accept rows and figures that only the old bill has
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

impl DiffArgs {
    /// Verdict on rows and figures that the new bill lacks.
    pub(crate) const fn missing(&self) -> MissingRows {
        if self.allow_missing {
            MissingRows::Allowed
        } else {
            MissingRows::Refused
        }
    }
}

//! Arguments of `diff`.

use std::path::PathBuf;

use clap::Args;
use pagetoll_compare::diff::MissingRows;

use super::{ListOutputArgs, values};

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll diff old.json new.json
      What regressed by more than half a percent, and which toll it was
  pagetoll diff --tolerance 2 --format md base.json this.json > comment.md
      For a pull request; exit code 1 gates the job

Exact counts are compared with the tolerance. Measured costs regress when a permutation test of the runs says so (p at \
most 0.05, at least 4 runs each) and the difference is above the tolerance and the noise of both. Modelled costs regress \
when their intervals do not meet.

Exit code 1: something regressed, enters the hypervisor more often, lost a bit or failed a check; a row or a figure is \
missing in the new bill (accepted with --allow-missing); or a row was billed on another memory layout. Exit code 2: bills \
that cannot be compared: of different routes, units, backends, --pages or guest RAM.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The bill to compare with, in JSON; - reads standard input
    pub(crate) old: PathBuf,
    /// The bill that is compared, of the same route
    pub(crate) new: PathBuf,
    /// Percent by which exact counts may differ and still be equal
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Accepts rows and figures that only the old bill has
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

impl DiffArgs {
    /// Whether rows and figures may be missing in the new bill.
    pub(crate) const fn missing(&self) -> MissingRows {
        if self.allow_missing {
            MissingRows::Allowed
        } else {
            MissingRows::Refused
        }
    }
}

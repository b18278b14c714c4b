//! Arguments of `bisect`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pagetoll_bill::Route;

use super::{ListOutputArgs, PlaceArgs, values};

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll bisect 6.18 7.2 --suite trixie-backports --route pin --row 'unmap kernel, 2M' -- --folio 2M
      Find the kernel package of the suite that regressed unmapping, and the toll
  pagetoll bisect v6.18 v6.19 --git ~/linux --route demand --row 'page-in exit' -- --on lab
      Find the commit; builds what it tries, leaves the tree alone
  pagetoll bisect 4.17 4.20 --xen --improved --suite bookworm,trixie --route unmap --row 'clear emulate'
      Find the version of Xen that made a trap cheaper
  git bisect run sh -c 'make -j8 bzImage && pagetoll bisect run-one good.json --row \"clear emulate\" -- --kernel arch/x86/boot/bzImage'
      Drive git bisect with builds of your own

Name a row as reports do, or by any part of its name that no other row has. Kernels that cannot be billed are left out; \
where the first bad one may be among them, all candidates are named.

Exit codes of run-one: 0 good, 1 bad, 125 cannot be billed.";

/// Arguments of `bisect`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BisectArgs {
    /// Subcommand; without one, a range is searched.
    #[command(subcommand)]
    pub(crate) command: Option<BisectCommand>,
    #[command(flatten)]
    pub(crate) order: Option<BisectOrder>,
    // No parts of the order: clap does not see that a group is there where another one is part of it.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Subcommands of `bisect`.
#[derive(Debug, Subcommand)]
pub(crate) enum BisectCommand {
    /// Bill one kernel and compare it with a good bill, for `git bisect run`
    RunOne(RunOneArgs),
}

/// Arguments of `bisect run-one`.
#[derive(Debug, Args)]
pub(crate) struct RunOneArgs {
    /// Bill of a good kernel, in JSON
    pub(crate) good: PathBuf,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// A range, and the change to search it for.
#[derive(Debug, Args)]
pub(crate) struct BisectOrder {
    /// Known-good kernel version or prefix (--git: commit; --xen: Xen version)
    pub(crate) good: String,
    /// Known-bad version (with --improved: known-better)
    pub(crate) bad: String,
    /// Bill this route
    #[arg(long)]
    pub(crate) route: Route,
    /// Compare the cost of this row, such as 'unmap kernel, 2M'
    #[arg(long, value_name = "ROW")]
    row: String,
    /// Tolerate this difference of exact counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    tolerance: f64,
    /// Search for where the row became cheaper
    #[arg(long)]
    pub(crate) improved: bool,
    /// Try kernels (or Xens) of these Debian suites [default: apt's here]
    #[arg(long, value_name = "SUITE,..", value_delimiter = ',')]
    pub(crate) suite: Vec<String>,
    /// Build commits of this Linux repository, which is not changed
    #[arg(long, value_name = "DIR", conflicts_with = "suite")]
    pub(crate) git: Option<PathBuf>,
    /// Search Xen versions, the newest of each suite, under one kernel
    #[arg(long, conflicts_with = "git")]
    pub(crate) xen: bool,
    /// Try N kernels at once, dividing the range by N + 1 [default: one per 2 CPUs and 4 GiB; cluster: 3]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Keep the bills in this folder [default: in the cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Bill the last good and first bad kernel again, by function
    #[arg(long)]
    pub(crate) profile: bool,
    /// Options of the bills, after --
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

impl BisectOrder {
    /// The comparison. Its arguments are written twice: clap does not see that a group is there where it is part of one.
    pub(crate) fn judging(&self) -> Judging {
        Judging {
            row: self.row.clone(),
            tolerance: self.tolerance,
            options: self.options.clone(),
        }
    }
}

/// The row of a bill that is compared, and how.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// Compare the cost of this row, such as 'unmap kernel, 2M'
    #[arg(long, value_name = "ROW")]
    pub(crate) row: String,
    /// Tolerate this difference of exact counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Options of the bills, after --
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) options: Vec<String>,
}

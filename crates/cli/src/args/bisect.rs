//! Arguments of `bisect`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pagetoll_bill::Route;
use pagetoll_render::{Format, Kind};

use super::PlaceArgs;
use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll bisect 6.18 7.2 --suite trixie-backports --route pin --row 'unmap kernel, 2M' -- --folio 2M
      Which kernel package of the suite regressed unmapping, and by which toll
  pagetoll bisect v6.18 v6.19 --git ~/linux --route demand --row 'page-in exit' -- --on lab
      Which commit did; each that is tried is built, the tree is not changed
  pagetoll bisect 4.17 4.20 --xen --improved --suite bookworm,trixie --route unmap --row 'clear emulate'
      Which version of Xen made a trap cheaper
  git bisect run sh -c 'make -j8 bzImage && pagetoll bisect run-one good.json --row \"clear emulate\" -- --kernel arch/x86/boot/bzImage'
      The same, with builds of your own

A row is named as reports of bills name it, or by a part of its name that no other row has. Kernels that cannot be \
billed are left out; where the first bad one is among them, all that it may be are named.

Exit codes of run-one: 0 good, 1 bad, 125 cannot be billed.";

/// Arguments of `bisect`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BisectArgs {
    /// What to do; without one, searches a range.
    #[command(subcommand)]
    pub(crate) command: Option<BisectCommand>,
    #[command(flatten)]
    pub(crate) order: Option<BisectOrder>,
    // Not a part of the order: clap does not see that a group is there where another one is part of it.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// What to do instead of a search.
#[derive(Debug, Subcommand)]
pub(crate) enum BisectCommand {
    /// Bills one kernel and compares it with a good bill, for `git bisect run`
    RunOne(RunOneArgs),
}

/// Arguments of `bisect run-one`.
#[derive(Debug, Args)]
pub(crate) struct RunOneArgs {
    /// The bill of a good kernel, in JSON
    pub(crate) good: PathBuf,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// A range, and what to search it for.
#[derive(Debug, Args)]
pub(crate) struct BisectOrder {
    /// A version of a kernel package, or its beginning; with --git a commit, with --xen a version of Xen
    pub(crate) good: String,
    /// The same of one that costs more, or less with --improved
    pub(crate) bad: String,
    /// The route that is billed
    #[arg(long)]
    pub(crate) route: Route,
    /// The row whose cost is compared, such as 'unmap kernel, 2M'
    #[arg(long, value_name = "ROW")]
    row: String,
    /// Percent by which an exact count may differ and still be good
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    tolerance: f64,
    /// Searches for where the row began to cost less, not more
    #[arg(long)]
    pub(crate) improved: bool,
    /// Suites of Debian whose kernels, or Xens, are tried [default: those that apt knows here]
    #[arg(long, value_name = "SUITE,..", value_delimiter = ',')]
    pub(crate) suite: Vec<String>,
    /// A git repository of Linux, whose commits are built where they are tried; it is not changed
    #[arg(long, value_name = "DIR", conflicts_with = "suite")]
    pub(crate) git: Option<PathBuf>,
    /// Searches versions of Xen, the newest one of each suite, below one kernel
    #[arg(long, conflicts_with = "git")]
    pub(crate) xen: bool,
    /// Kernels at the same time, which cut the range into one part more [default: one for 2 CPUs and 4 GiB; on a cluster 3]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// The folder that keeps the bills [default: one in the cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Bills the last good and the first bad kernel again, itemised by function
    #[arg(long)]
    pub(crate) profile: bool,
    /// Form of the comparison of the last good and the first bad kernel
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::Diff))]
    pub(crate) format: Format,
    /// Options of the bills, after --
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

impl BisectOrder {
    /// What is looked at. Its arguments are written twice: clap does not see that a group is there where it is part of one.
    pub(crate) fn judging(&self) -> Judging {
        Judging {
            row: self.row.clone(),
            tolerance: self.tolerance,
            options: self.options.clone(),
        }
    }
}

/// What is looked at in a bill.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// The row whose cost is compared, such as 'unmap kernel, 2M'
    #[arg(long, value_name = "ROW")]
    pub(crate) row: String,
    /// Percent by which an exact count may differ and still be good
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = values::percent, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Options of the bills, after --
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) options: Vec<String>,
}

//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use pagetoll_sweep::JobId;

use super::ListOutputArgs;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll sweep plan.toml --store bills --dry-run
      List the jobs of the plan and those with a bill; run nothing
  pagetoll sweep plan.toml --store bills
      Run the missing jobs; a second run has nothing to do
  pagetoll sweep plan.toml --store bills --print-jobs | xargs -d '\\n' -n1 -P8 sh -c
      Run them by another program: one command a line, for Slurm arrays, parallel or xargs
  pagetoll sweep show bills
      Print a line per bill, or the reason of its failure

A plan is TOML, of at most 100000 jobs: docs/sweep.md. Exit code 1: a job failed, or a check of a bill did.";

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SweepArgs {
    /// Subcommand; without one, a plan is run.
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    #[command(flatten)]
    pub(crate) order: Option<SweepOrder>,
    // Not a part of the order: clap does not see that a group is there where another one is part of it.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Subcommands of `sweep`.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Print a line per job of a store: options and costs, or error
    Show(ShowArgs),
}

/// Arguments of `sweep show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Folder of the bills
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// A plan, and options of its run.
#[derive(Debug, Args)]
pub(crate) struct SweepOrder {
    /// Plan: axes, of which every combination is a bill
    pub(crate) plan: PathBuf,
    /// Keep the bills in this folder; create it if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Run N bills at once [default: one per 2 CPUs and 4 GiB]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Retry a failed job N times
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// List the jobs and their states; run nothing
    #[arg(long, conflicts_with_all = ["print_jobs", "job"])]
    pub(crate) dry_run: bool,
    /// Print a command for each missing job; run nothing
    #[arg(long, conflicts_with = "job")]
    pub(crate) print_jobs: bool,
    /// Run this job alone; safe beside others
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<JobId>,
}

/// Place of the runs.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Run the jobs here or on a cluster
    #[arg(long, value_name = "WHERE", default_value = "local")]
    pub(crate) on: SweepOn,
    /// With --on ray: connect to this cluster, as ray.init does [default: a running or new local one]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
}

/// Places that run the jobs of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepOn {
    /// This machine
    Local,
    /// Nodes of a Ray cluster, through the Python package pagetoll
    Ray,
}

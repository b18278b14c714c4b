//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use pagetoll_sweep::JobId;

use super::ListOutputArgs;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll sweep plan.toml --store bills --dry-run
      The jobs of the plan, and which of them have a bill; does nothing
  pagetoll sweep plan.toml --store bills
      Makes the bills that are missing; a second run does nothing
  pagetoll sweep plan.toml --store bills --print-jobs | xargs -d '\\n' -n1 -P8 sh -c
      The same by another program: one command a line, for arrays of Slurm, parallel or xargs
  pagetoll sweep show bills
      One line for each bill, or why it failed

A plan is TOML, of at most 100000 jobs: docs/sweep.md. Exit code 1: a job failed, or a check of a bill did.";

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SweepArgs {
    /// What to do; without one, runs a plan.
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    #[command(flatten)]
    pub(crate) order: Option<SweepOrder>,
    // Not a part of the order: clap does not see that a group is there where another one is part of it.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// What to do with the results of a sweep.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Prints a line for each job of a store: its options and costs, or why it failed
    Show(ShowArgs),
}

/// Arguments of `sweep show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The folder of the bills
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// A plan, and how it is run.
#[derive(Debug, Args)]
pub(crate) struct SweepOrder {
    /// The plan: axes, of which every combination is a bill
    pub(crate) plan: PathBuf,
    /// The folder that keeps the bills, made where needed
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Bills at the same time [default: one for 2 CPUs and 4 GiB]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// How often a job that failed is tried again
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Only lists the jobs, and what became of them
    #[arg(long, conflicts_with_all = ["print_jobs", "job"])]
    pub(crate) dry_run: bool,
    /// Only prints a command for each job that is still to do
    #[arg(long, conflicts_with = "job")]
    pub(crate) print_jobs: bool,
    /// Runs this job alone; others may run beside it
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<JobId>,
}

/// Where bills are made.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Where bills are made
    #[arg(long, value_name = "WHERE", default_value = "local")]
    pub(crate) on: SweepOn,
    /// With --on ray: the cluster's address, as ray.init takes it [default: the cluster that runs here, else a new one]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
}

/// Where the jobs of a sweep are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepOn {
    /// On this machine
    Local,
    /// On the nodes of a cluster of Ray, by the Python package pagetoll
    Ray,
}

//! The arguments of `pagetoll read`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use pagetoll_captures::{FORMATS, Recorder};

use super::{ListOutputArgs, values};

/// What `--how` says without a source.
pub(crate) const ALL_SOURCES: &str = "all";

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll read dom0.xentrace --symbols System.map
      Who entered Xen for what, from which functions, for each page-table entry that was changed
  pagetoll read --how kvm
      The commands that record which vCPU exits how often, and maps how many pages of which size
  pagetoll read vm.data
      What they recorded
  pagetoll read --live $(pgrep -n qemu-system) --for 5
      What KVM counts of a running VMM
  pagetoll read old.xentrace --compare new.xentrace
      The same work on two kernels: what happens more often, exit code 1";

fn file_help() -> String {
    let formats = FORMATS.each_ref().map(|format| format.name);
    format!(
        "Capture to analyse, - for standard input; one of: {}",
        formats.join(", ")
    )
}

/// Arguments of `read`.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    #[arg(required_unless_present_any = ["how", "live"], help = file_help())]
    pub(crate) file: Option<PathBuf>,
    /// Prints how it is recorded on this host: all sources, or one
    #[arg(
        long,
        value_name = "SOURCE",
        num_args = 0..=1,
        default_missing_value = ALL_SOURCES,
        conflicts_with_all = ["file", "live", "symbols", "compare"],
        value_parser = PossibleValuesParser::new([&[ALL_SOURCES], &*Recorder::sources()].concat()),
    )]
    pub(crate) how: Option<String>,
    /// Prints each record of an xentrace instead, with the functions that were in
    #[arg(long, requires = "file", conflicts_with_all = ["how", "live", "compare", "format", "output"])]
    pub(crate) dump: bool,
    /// Instead of a file: what KVM's counters of this VMM grow by
    #[arg(long, value_name = "PID", conflicts_with_all = ["file", "symbols", "compare"])]
    pub(crate) live: Option<u32>,
    /// With --live: for how many seconds
    #[arg(
        long = "for",
        value_name = "SECONDS",
        default_value = "10",
        requires = "live",
        conflicts_with_all = ["file", "how"],
        value_parser = values::seconds
    )]
    pub(crate) during: Duration,
    /// Names functions: System.map, /proc/kallsyms, vmlinux or xen-syms; may be given for each of them
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Vec<PathBuf>,
    /// A capture of the same work on another kernel or setting: what happens more often there, and what less
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// With --compare: how much more often an event may happen for each unit of work, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "5",
        requires = "compare",
        conflicts_with_all = ["how", "live"],
        value_parser = values::percent
    )]
    pub(crate) tolerance: f64,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

//! Arguments of `read`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use pagetoll_bill::values::seconds;
use pagetoll_captures::{FORMATS, Recorder};
use pagetoll_causes::Slot;

use super::{ListOutputArgs, values};

/// Value of `--how` without a source.
pub(crate) const ALL_SOURCES: &str = "all";

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll read dom0.xentrace --symbols System.map
      Entries into Xen per changed page-table entry, by reason and function
  pagetoll read --how kvm
      Print the commands that record exits and mapped pages of each vCPU
  pagetoll read vm.data
      Analyse the recording
  pagetoll read vm.data --why
      Tell the cause of each fault of the guest: first touch, discard, copy-on-write, ...
  pagetoll read --live $(pgrep -n qemu-system) --for 5
      Sample the KVM counters of a running VMM
  pagetoll read old.xentrace --compare new.xentrace
      Compare two kernels at the same work; exit code 1 if something happens more often or takes longer";

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
    /// Print how to record it on this host: all sources, or one
    #[arg(
        long,
        value_name = "SOURCE",
        num_args = 0..=1,
        default_missing_value = ALL_SOURCES,
        conflicts_with_all = ["file", "live", "symbols", "compare"],
        value_parser = PossibleValuesParser::new([&[ALL_SOURCES], &*Recorder::sources()].concat()),
    )]
    pub(crate) how: Option<String>,
    /// With --how: print the script of the source alone
    #[arg(long, requires = "how", conflicts_with_all = ["file", "format", "output"])]
    pub(crate) script: bool,
    /// Dump every xentrace record, symbolised
    #[arg(long, requires = "file", conflicts_with_all = ["how", "live", "compare", "format", "output"])]
    pub(crate) dump: bool,
    /// Tell the cause of each fault of a guest, from what last happened to its page
    #[arg(long, requires = "file", conflicts_with_all = ["how", "live", "compare", "dump", "symbols"])]
    pub(crate) why: bool,
    /// With --why: place guest memory in the VMM, in hexadecimal; repeatable
    #[arg(long, value_name = "GPA=HVA:SIZE", requires = "why")]
    pub(crate) memory: Vec<Slot>,
    /// Have a trace.dat printed by trace-cmd, which you trust with it
    #[arg(long, requires = "file", conflicts_with_all = ["how", "live", "dump"])]
    pub(crate) trace_cmd: bool,
    /// Sample the KVM counters of process PID instead of reading a file
    #[arg(long, value_name = "PID", conflicts_with_all = ["file", "symbols", "compare"])]
    pub(crate) live: Option<u32>,
    /// With --live: sample for SECONDS
    #[arg(
        long = "for",
        value_name = "SECONDS",
        default_value = "10",
        requires = "live",
        conflicts_with_all = ["file", "how"],
        value_parser = seconds
    )]
    pub(crate) during: Duration,
    /// Resolve addresses by this System.map, kallsyms, vmlinux or xen-syms; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Vec<PathBuf>,
    /// Show each thread, where there are many, instead of sums by process
    #[arg(long, conflicts_with_all = ["how", "dump", "compare"])]
    pub(crate) threads: bool,
    /// Compare with a capture of the same work on another kernel
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// With --compare: tolerate this increase of an event per unit, or of its time, in percent
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

//! The arguments of `pagetoll read`.

use std::path::PathBuf;

use clap::Args;

use pagetoll_render::{Format, Kind};

use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll read dom0.xentrace --symbols System.map
      Who entered Xen for what, from which functions, for each page-table entry that was changed
  perf record -a -o vm.data -e kvm:kvm_exit,kvm:kvm_entry,kvmmmu:kvm_mmu_set_spte -- sleep 10 && pagetoll read vm.data
      Which vCPU mapped how many pages of which size, and how long one took
  pagetoll read old.xentrace --compare new.xentrace
      The same work on two kernels: what happens more often, exit code 1";

/// Arguments of `read`.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// What was recorded, found by its content: xentrace, perf.data, perf script, trace-cmd report, function_graph, kvm_stat,
    /// query-stats, debugfs or virsh domstats of KVM, perf kvm stat report, bpftrace; - reads standard input
    pub(crate) file: PathBuf,
    /// Names functions: System.map, /proc/kallsyms, vmlinux or xen-syms; may be given for each of them
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Vec<PathBuf>,
    /// A capture of the same work on another kernel or setting: what happens more often there, and what less
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// With --compare: how much more often an event may happen for each unit of work, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5", requires = "compare", value_parser = values::percent)]
    pub(crate) tolerance: f64,
    /// How the counts are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
}

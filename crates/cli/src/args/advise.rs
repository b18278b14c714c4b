//! Arguments of `advise`.

use std::path::PathBuf;

use clap::Args;

use super::ListOutputArgs;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll advise
      Rules that may apply to this host, and how to record the proof
  pagetoll advise dom0.xentrace
      Counts, fixes, the gain of each by a bill, and when it does not hold
  pagetoll advise vm.data --format json
      For a script";

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Capture to analyse, - for stdin [default: inspect this host]
    pub(crate) file: Option<PathBuf>,
    /// Resolve addresses by this symbol file, as in pagetoll read; repeatable
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) symbols: Vec<PathBuf>,
    /// Have a trace.dat printed by trace-cmd, which you trust with it
    #[arg(long, requires = "file")]
    pub(crate) trace_cmd: bool,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

//! The arguments of `pagetoll advise`.

use std::path::PathBuf;

use clap::Args;

use pagetoll_render::{Format, Kind};

use super::values;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll advise
      What applies to this host, before anything was recorded, and how to record what shows it
  pagetoll advise dom0.xentrace
      What was counted, what to do, what a bill says that it gives, and when it does not hold
  pagetoll advise vm.data --format json
      The same, for a script";

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// What was recorded, in any format that pagetoll read has; - reads standard input; without it, this host is looked at
    pub(crate) file: Option<PathBuf>,
    /// Names functions, as for pagetoll read; may be given several times
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) symbols: Vec<PathBuf>,
    /// How the advice is printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
}

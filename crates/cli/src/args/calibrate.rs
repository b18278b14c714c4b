//! Arguments of `calibrate`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll calibrate unmap.json switch.json > my-xen.toml
      Table of a Xen and a kernel of your own: in instructions from lab bills, in nanoseconds
      from those of --on live
  pagetoll calibrate --this-host --output this-host.toml
      Measure the parts of demand paging here: system calls, copies, exits, wake-ups, cache lines
  pagetoll bill demand --on sim --costs this-host.toml
      Run the model with that table";

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// JSON bills of one machine: several routes, from the lab or live in a Xen PV guest; or lab bills of pin
    #[arg(required_unless_present = "this_host")]
    pub(crate) bills: Vec<PathBuf>,
    /// Take this kernel of pin bills, such as 6.18.15 [default: the first]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Measure this idle host: demand paging, or in a Xen PV guest its routes
    #[arg(long, conflicts_with_all = ["bills", "kernel"])]
    pub(crate) this_host: bool,
    /// With --this-host: repeat N times, 1 to 1000 [default: 21; Xen PV guest: 10]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "bills",
        allow_negative_numbers = true
    )]
    pub(crate) rounds: Option<u32>,
    /// With --this-host, Xen PV guest: load this xen-probe.ko instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "bills")]
    pub(crate) probe: Option<PathBuf>,
    /// With --this-host: accept a busy host, whose times are too long
    #[arg(long, conflicts_with = "bills")]
    pub(crate) busy: bool,
    /// Name the table [default: lab, live or this-host]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Write to this file; keep an existing one as FILE.old
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

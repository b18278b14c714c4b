//! Arguments of `calibrate`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll calibrate unmap.json switch.json > my-xen.toml
      The table of a Xen and a kernel of your own: in instructions from bills of the lab, in
      nanoseconds from those of --on live
  pagetoll calibrate --this-host --output this-host.toml
      What demand paging is made of on this host: system calls, copies, exits, wake-ups, cache lines
  pagetoll bill demand --on sim --costs this-host.toml
      The model with that table";

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Bills in JSON, of different routes on the same machine: of the lab, or by --on live of a Xen PV guest; or bills of
    /// the lab of route pin
    #[arg(required_unless_present = "this_host")]
    pub(crate) bills: Vec<PathBuf>,
    /// Which of the kernels in bills of route pin, such as 6.18.15; without this, the first
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// Measures this host instead, which should be idle: demand paging, by /dev/kvm and userfaultfd; of a Xen PV guest,
    /// what it pays Xen for, by bills of itself
    #[arg(long, conflicts_with_all = ["bills", "kernel"])]
    pub(crate) this_host: bool,
    /// With --this-host: how often everything is measured, 1 to 1000 [default: 21; of a Xen PV guest, 10]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "bills",
        allow_negative_numbers = true
    )]
    pub(crate) rounds: Option<u32>,
    /// With --this-host, of a Xen PV guest: the probe module, where none can be built for its kernel
    #[arg(long, value_name = "FILE", conflicts_with = "bills")]
    pub(crate) probe: Option<PathBuf>,
    /// Name of the table [default: lab, live or this-host]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Writes the table to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

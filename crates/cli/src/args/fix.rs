//! Arguments of `fix`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use pagetoll_bill::Arch;
use pagetoll_fix::Flavour;

use super::ListOutputArgs;

/// Upper bound of --jobs. Assumed: more compilers would only wait for each other's memory.
const MOST_JOBS: usize = 1024;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll fix show xen-pv-get-and-clear
      Explain the fix: purpose, safety, and how to send it upstream
  pagetoll fix export xen-pv-get-and-clear@7.3 outgoing
      Write the series for Linux 7.3, with a cover letter: git am outgoing/000[1-9]*
  pagetoll fix build xen-pv-get-and-clear
      Build the patched kernel into the cache: five minutes on two CPUs, once
  pagetoll fix build xen-pv-get-and-clear@6.1 --source ~/linux
      Build the series for Linux 6.1 on a tree of your own, which is not changed
  pagetoll fix build kvm-exit-on-missing --arch arm64
      Build for another processor, by a cross compiler
  pagetoll fix check xen-pv-get-and-clear
      Run its checks on the fix, and on deliberately broken kernels that they must catch";

/// Arguments of `fix`.
#[derive(Debug, Args)]
pub(crate) struct FixArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub(crate) command: FixCommand,
}

/// Subcommands of `fix`.
#[derive(Debug, Subcommand)]
pub(crate) enum FixCommand {
    /// List fixes and the Linux and Xen versions they are for
    List(ListOutputArgs),
    /// Print the description of a fix, or its patches
    Show(FixShowArgs),
    /// Write a series with a cover letter, for `git am` and b4
    Export(FixExportArgs),
    /// Build a kernel or Xen with a fix (or none) into the cache
    Build(FixBuildArgs),
    /// Prove a fix: its checks pass, and fail on broken variants
    Check(FixCheckArgs),
}

/// Arguments of `fix show`.
#[derive(Debug, Args)]
pub(crate) struct FixShowArgs {
    /// Fix: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    /// Print the patches, for `git am`
    #[arg(long)]
    pub(crate) patches: bool,
}

/// Arguments of `fix export`.
#[derive(Debug, Args)]
pub(crate) struct FixExportArgs {
    /// Fix: NAME or NAME@SERIES; of none, the bug fixes that debug and RT kernels need
    pub(crate) name: String,
    /// Folder to write, empty or new
    pub(crate) folder: PathBuf,
}

/// Arguments of `fix build`.
#[derive(Debug, Args)]
pub(crate) struct FixBuildArgs {
    /// Fix, or none: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Build a Xen with lock profiling, for `bill flush --on live`
    #[arg(long)]
    pub(crate) lock_profile: bool,
    /// Build a kernel with VFIO and IOMMU drivers, for `bill pin`; a fix of VFIO always has them
    #[arg(long)]
    pub(crate) vfio: bool,
}

/// Build options of a kernel.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Build this source tree, unchanged, instead of Debian's
    #[arg(long, value_name = "DIR")]
    pub(crate) source: Option<PathBuf>,
    /// Build for this processor [default: x86-64]
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch: Option<Arch>,
    /// Run N compilers at once [default: one per CPU]
    #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| jobs(text))]
    pub(crate) jobs: Option<usize>,
    /// Look packages up again; ignore earlier lookups
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Build a debug kernel (checks page tables and locks); `fix check` then skips broken variants
    #[arg(long)]
    pub(crate) debug_kernel: bool,
    /// Build a PREEMPT_RT kernel (Linux 6.12 or later); `fix check` then breaks what it is for
    #[arg(long, conflicts_with = "debug_kernel")]
    pub(crate) rt_kernel: bool,
}

impl BuildArgs {
    /// Kernel configuration, and the option that asks for it where it is not the lab's.
    pub(crate) const fn flavour(&self) -> (Flavour, Option<&'static str>) {
        if self.debug_kernel {
            (Flavour::Debug, Some("--debug-kernel"))
        } else if self.rt_kernel {
            (Flavour::Rt, Some("--rt-kernel"))
        } else {
            (Flavour::Lab, None)
        }
    }
}

/// Arguments of `fix check`.
#[derive(Debug, Args)]
pub(crate) struct FixCheckArgs {
    /// Fix: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Run only these checks and their broken kernels [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) check: Vec<String>,
    /// Also build every prefix of the series, as git bisect would
    #[arg(long, conflicts_with_all = ["debug_kernel", "rt_kernel"])]
    pub(crate) bisect: bool,
    /// Check this built kernel (brd and kvm_amd built in where used), without broken variants
    #[arg(long, value_name = "SRC", conflicts_with_all = ["bisect", "debug_kernel", "rt_kernel", "source", "jobs"])]
    pub(crate) kernel: Option<String>,
    /// Boot this Xen under a fix of Linux: debian, debian:SUITE, or an image [default: debian, or a build that the fix
    /// needs]
    #[arg(long, value_name = "SRC")]
    pub(crate) xen: Option<String>,
    /// Keep consoles of the guests in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

fn jobs(text: &str) -> Result<usize, String> {
    let range = 1..=MOST_JOBS;
    let jobs = text.parse().ok().filter(|n| range.contains(n));
    jobs.ok_or_else(|| format!("expected a whole number from 1 to {MOST_JOBS}"))
}

//! The arguments of `pagetoll fix`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use pagetoll_bill::Arch;
use pagetoll_render::{Format, Kind};

use super::{ListArgs, values};

/// More compilers than this would only wait for each other's memory.
const MOST_JOBS: usize = 1024;

pub(super) const EXAMPLES: &str = "\
Examples:
  pagetoll fix show xen-pv-get-and-clear
      What it is for, why it is safe, and how to send it upstream
  pagetoll fix export xen-pv-get-and-clear@7.3 outgoing
      The series for Linux 7.3, with a cover letter: git am outgoing/000[1-9]*
  pagetoll fix build xen-pv-get-and-clear
      Builds the patched kernel into the cache: five minutes on two CPUs, nothing when it is there
  pagetoll fix build xen-pv-get-and-clear@6.1 --source ~/linux
      The series for Linux 6.1, on a tree of your own, which is not changed
  pagetoll fix build kvm-exit-on-missing --arch arm64
      For another processor, by a cross compiler
  pagetoll fix check xen-pv-get-and-clear
      Runs its checks on the real thing, and on kernels that are broken on purpose, which they must catch";

/// Arguments of `fix`.
#[derive(Debug, Args)]
pub(crate) struct FixArgs {
    /// What to do with a fix.
    #[command(subcommand)]
    pub(crate) command: FixCommand,
}

/// What to do with a fix.
#[derive(Debug, Subcommand)]
pub(crate) enum FixCommand {
    /// Lists the fixes and the versions of Linux and Xen that they are for
    List(ListArgs),
    /// Prints what a fix is for, or its patches
    Show(FixShowArgs),
    /// Writes a series into a folder, with a cover letter, as `git am` and b4 take it
    Export(FixExportArgs),
    /// Builds a kernel or a Xen with a fix, or a kernel without any (none), into the cache
    Build(FixBuildArgs),
    /// Proves a fix: its checks pass on it, and fail on its broken variants
    Check(FixCheckArgs),
}

/// Arguments of `fix show`.
#[derive(Debug, Args)]
pub(crate) struct FixShowArgs {
    /// The fix: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    /// Prints the patches, as `git am` takes them
    #[arg(long)]
    pub(crate) patches: bool,
}

/// Arguments of `fix export`.
#[derive(Debug, Args)]
pub(crate) struct FixExportArgs {
    /// The fix: NAME or NAME@SERIES
    pub(crate) name: String,
    /// A folder that is empty or not there
    pub(crate) folder: PathBuf,
}

/// Arguments of `fix build`.
#[derive(Debug, Args)]
pub(crate) struct FixBuildArgs {
    /// The fix, or none: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// A Xen that profiles its locks, for `bill flush --on live`: none, or a fix of Xen
    #[arg(long)]
    pub(crate) lock_profile: bool,
}

/// How a kernel is built.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// A source tree of your own, which is not changed, instead of Debian's
    #[arg(long, value_name = "DIR")]
    pub(crate) source: Option<PathBuf>,
    /// Processor that the kernel is for [default: x86-64]
    #[arg(long)]
    pub(crate) arch: Option<Arch>,
    /// Compilers that run at the same time [default: as many as there are CPUs]
    #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| jobs(text))]
    pub(crate) jobs: Option<usize>,
    /// Asks the package mirror what it offers today instead of using what was recorded
    #[arg(long)]
    pub(crate) refresh: bool,
    /// A debug kernel, which checks its own page tables, pages and locks; `fix check` then runs no broken kernels beside it
    #[arg(long)]
    pub(crate) debug_kernel: bool,
}

/// Arguments of `fix check`.
#[derive(Debug, Args)]
pub(crate) struct FixCheckArgs {
    /// The fix: NAME, NAME@SERIES or NAME@SUITE/SERIES
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Only these checks, and the broken kernels that they must catch [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) check: Vec<String>,
    /// Also builds each kernel that has only the first of the patches, as git bisect meets them
    #[arg(long, conflicts_with = "debug_kernel")]
    pub(crate) bisect: bool,
    /// Checks a kernel that is built already, of your own or of `fix build none`, and no broken ones; it needs brd and
    /// kvm_amd built in where a check uses them
    #[arg(long, value_name = "SRC", conflicts_with_all = ["bisect", "debug_kernel", "source", "jobs"])]
    pub(crate) kernel: Option<String>,
    /// The hypervisor of a fix of Linux: debian, debian:SUITE, or the path of a Xen image
    #[arg(long, value_name = "SRC", default_value = "debian")]
    pub(crate) xen: String,
    /// Keeps the guests' consoles in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
    /// How the findings are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
}

fn jobs(text: &str) -> Result<usize, String> {
    let range = 1..=MOST_JOBS;
    let jobs = text.parse().ok().filter(|n| range.contains(n));
    jobs.ok_or_else(|| format!("expected a whole number from 1 to {MOST_JOBS}"))
}

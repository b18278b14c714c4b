//! Exactly what the user said, checked for form only; the backends settle what it means.

mod advise;
mod bill;
mod bisect;
mod cache;
mod calibrate;
mod diff;
mod fix;
mod output;
mod read;
mod report;
mod sweep;
mod values;

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use pagetoll_bill::Arch;
use pagetoll_bill::spec::LabSpec;
use pagetoll_render::{Format, Kind};

pub(crate) use advise::AdviseArgs;
pub(crate) use bill::{BillCommand, ImageArgs};
pub(crate) use bisect::{BisectArgs, BisectCommand, BisectOrder, Judging, RunOneArgs};
pub(crate) use cache::{CacheArgs, CacheCommand, CleanArgs};
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use fix::{
    BuildArgs, FixArgs, FixBuildArgs, FixCheckArgs, FixCommand, FixExportArgs, FixShowArgs,
};
pub(crate) use output::{ListOutputArgs, OutputArgs};
pub(crate) use read::{ALL_SOURCES, ReadArgs};
pub(crate) use report::ReportArgs;
pub(crate) use sweep::{PlaceArgs, ShowArgs, SweepArgs, SweepCommand, SweepOn, SweepOrder};

const LONG_ABOUT: &str = "\
Itemises what every page of memory costs a virtual machine.

A guest that unmaps, faults, flushes, pins or pages in memory pays the hypervisor a toll for every page: a trap, an \
emulated instruction, a hypercall, a lock. pagetoll counts these tolls on real Xen and Linux kernels and prints a \
bill: for each mechanism its cost per page, item by item, with safety checks and exactly what was run.";

const EXIT_CODES: &str = "\
Exit codes: 0 ok, 1 a check failed or something regressed, 2 bad usage or input, 3 this machine lacks something or a guest failed; \
128 + N after signal N (130 for Ctrl-C).";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "pagetoll",
    version,
    about = "Itemises what every page of memory costs a virtual machine"
)]
#[command(long_about = LONG_ABOUT, after_long_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Says on stderr where the time went and what was resolved; -vv says what is done, step by step
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Says nothing on stderr but errors and failed checks: no progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors and failed checks.
    Silent,
    /// The same, progress on a terminal, and notes that change how a bill is to be read.
    Quiet,
    /// Where the time went, and what was resolved.
    Summary,
    /// Every step.
    Debug,
}

impl Cli {
    /// How much is to be said on stderr.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Silent,
            (false, 0) => Verbosity::Quiet,
            (false, 1) => Verbosity::Summary,
            (false, _) => Verbosity::Debug,
        }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bills a route: what each page costs, by each mechanism
    Bill(Box<BillRoute>),
    /// Prints a saved bill as its run would have printed it, or several as curves over what they differ in
    #[command(after_long_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Compares two bills of a route: what regressed, and what fails a gate
    #[command(after_long_help = diff::EXAMPLES)]
    Diff(DiffArgs),
    /// Makes all bills of a plan that are missing in a folder, side by side; shows what is there
    #[command(after_long_help = sweep::EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Finds the first kernel on which a row of a bill costs more, and the toll that it was
    #[command(after_long_help = bisect::EXAMPLES)]
    Bisect(Box<BisectArgs>),
    /// Lists what can be billed, by which mechanism, on which backend, here
    Routes(ListArgs),
    /// Says what works on this machine, and how to get the rest
    Doctor(DoctorArgs),
    /// Reads what was recorded elsewhere: costs for each unit of its work, by function; compares two captures
    #[command(after_long_help = read::EXAMPLES)]
    Read(ReadArgs),
    /// Says what to do about a capture, or about this host, and which bill says what that gives
    #[command(after_long_help = advise::EXAMPLES)]
    Advise(AdviseArgs),
    /// Asks a simulated and a real system the same, and compares the answers
    Conformance(ConformanceArgs),
    /// Tries all orders of clearing page-table entries against using them, and prints one that loses a bit
    Search(ListArgs),
    /// Lists, shows, builds and checks the patches of Linux and Xen that pagetoll carries
    #[command(after_long_help = fix::EXAMPLES)]
    Fix(FixArgs),
    /// Lists, verifies and cleans what is kept between runs: packages, images, builds
    #[command(after_long_help = cache::EXAMPLES)]
    Cache(CacheArgs),
    /// Makes a cost table for the simulator, from bills of the lab or by measuring this host
    #[command(after_long_help = calibrate::EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Compares the simulator with published figures, or with this host
    Validate(ValidateArgs),
    /// Writes manual pages and shell completions into a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
    /// Undo what a run has changed on this host, when standard input ends
    #[command(hide = true)]
    Guard {
        /// List of the changes
        journal: PathBuf,
    },
}

/// Which route is billed.
#[derive(Debug, Args)]
pub(crate) struct BillRoute {
    /// The route, with its options.
    #[command(subcommand)]
    pub(crate) command: BillCommand,
}

/// Arguments of `routes`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How the list is printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Bills demand paging on this host and models it with a table of this host: 1 to 4 vCPUs, batches of 1 to 64
    #[arg(long)]
    pub(crate) live: bool,
    /// With --live: the table that calibrate --this-host made; without this, the host is measured first
    #[arg(long, value_name = "TABLE", requires = "live")]
    pub(crate) costs: Option<String>,
    /// With --live: pages of each vCPU in a run [default: 4096]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = values::number::<u64>)]
    pub(crate) pages: Option<u64>,
    /// With --live: runs of each order [default: 5]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = values::number::<u32>)]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Installs what is missing through apt-get, as root or by sudo without a password
    #[arg(long)]
    pub(crate) install: bool,
    /// Processor of the lab's machines
    #[arg(long, default_value = "x86-64", value_parser = values::named(Arch::ALL, Arch::name, Arch::meaning))]
    pub(crate) arch: Arch,
    /// How the findings are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
}

/// Arguments of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// What is asked: xen, updates of a PV guest's page tables; vfio, mapping memory for DMA; kvm, memslots and userfaultfds
    #[arg(long, value_name = "SUITE", default_value = "xen")]
    pub(crate) suite: ConformanceSuite,
    /// Which systems answer; one alone is compared with the answers that were recorded on a real one
    #[arg(long, value_name = "SYSTEM", default_value = "both")]
    pub(crate) on: ConformanceSystems,
    /// How the answers are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::format(Kind::List))]
    pub(crate) format: Format,
    /// Only the cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) case: String,
    /// Writes the real system's answers to this file, as conformance/ keeps them
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Processor of the lab's machine, of the suites vfio and kvm; kvm runs in the lab then [default: x86-64]
    #[arg(long, value_parser = values::named(Arch::ALL, Arch::name, Arch::meaning))]
    pub(crate) arch: Option<Arch>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Keeps the guest's console in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
}

impl ConformanceArgs {
    /// What the lab boots.
    pub(crate) fn lab(&self) -> LabSpec {
        LabSpec {
            arch: self.arch,
            keep_logs: self.keep_logs.clone(),
            ..self.images.spec()
        }
    }

    /// Whether a suite that this host could answer is run in the lab.
    pub(crate) fn wants_lab(&self) -> bool {
        self.arch.is_some() || self.on == ConformanceSystems::Lab
    }
}

/// Suites of conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSuite {
    /// Xen's page-table updates
    Xen,
    /// VFIO's maps and unmaps
    Vfio,
    /// KVM's memslots and userfaultfds, on this host or in the lab
    Kvm,
}

/// Who answers the conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSystems {
    /// The real one, in the lab
    Lab,
    /// The real one, on this host: kvm
    Live,
    /// The simulated one
    Sim,
    /// Both
    Both,
}

impl ConformanceSystems {
    /// As the user says it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Live => "live",
            Self::Sim => "sim",
            Self::Both => "both",
        }
    }
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The folder, made where needed
    pub(crate) folder: PathBuf,
}

/// The command line with a help of its own for each route.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommand("bill", bill::per_route)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use pagetoll_bill::{Opt, Route};

    use super::*;

    fn parsed(arguments: &[&str]) -> Cli {
        let matches = command().get_matches_from(arguments);
        Cli::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn an_order_that_says_nothing_gives_no_option() {
        let Command::Bill(bill) = parsed(&["pagetoll", "bill", "unmap"]).command else {
            panic!("not a bill");
        };
        let (route, args) = bill.command.split();
        assert_eq!((route, args.on), (Route::Unmap, None));
        assert_eq!(args.spec(route).given(), []);
    }

    #[test]
    fn every_option_of_an_order_is_an_argument_and_is_given_when_it_is_said() {
        for &option in Opt::ALL {
            let value = match option {
                flag if flag.is_flag() => "",
                Opt::Wait => "=poll",
                Opt::Userfaultfds => "=one",
                Opt::Faults => "=missing",
                Opt::Memory => "=shmem",
                Opt::Access => "=read",
                Opt::Order => "=random",
                Opt::Ring => "=0",
                Opt::Pin => "=none",
                Opt::Arch => "=arm64",
                Opt::KvmMode => "=nvhe",
                Opt::WhatIf => "=no-walks",
                Opt::Folio => "=2M",
                Opt::Iommu => "=amd-vi",
                _ => "=1",
            };
            let flag = format!("{option}{value}");
            let Command::Bill(bill) = parsed(&["pagetoll", "bill", "pin", &flag]).command else {
                panic!("not a bill");
            };
            let (route, args) = bill.command.split();
            assert_eq!(args.spec(route).given(), [option]);
        }
    }
}

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

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pagetoll_bill::Arch;
use pagetoll_bill::spec::LabSpec;
use pagetoll_bill::values::number;
use pagetoll_render::{Format, Kind};

pub(crate) use advise::AdviseArgs;
pub(crate) use bill::BillArgs;
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
    #[command(subcommand)]
    Bill(Box<BillArgs>),
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
    #[arg(value_parser = number::<u64>)]
    pub(crate) pages: Option<u64>,
    /// With --live: runs of each order [default: 5]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = number::<u32>)]
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
    #[arg(long, default_value = "x86-64")]
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
    #[arg(long)]
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
            kernels: self.images.kernel.clone(),
            headers: self.images.headers.clone(),
            modules: self.images.modules.clone(),
            xen: self.images.xen.clone(),
            keep_logs: self.keep_logs.clone(),
            ..LabSpec::default()
        }
    }

    /// Whether a suite that this host could answer is run in the lab.
    pub(crate) fn wants_lab(&self) -> bool {
        self.arch.is_some() || self.on == ConformanceSystems::Lab
    }
}

/// A kernel and a hypervisor.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Kernel: debian, debian:SUITE, debian:SUITE/VERSION, fix:NAME, fix:none, or the path of a bzImage or vmlinux; several are set side by side [default: debian]
    #[arg(long, value_name = "SRC")]
    pub(crate) kernel: Vec<String>,
    /// Build folder of a kernel given by its path: the probe module is built for it
    #[arg(long, value_name = "DIR")]
    headers: Option<PathBuf>,
    /// modules_install tree of a kernel given by its path
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// Hypervisor: debian, debian:SUITE, fix:NAME, fix:none, or the path of a Xen image [default: debian]
    #[arg(long, value_name = "SRC")]
    xen: Option<String>,
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

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory};
    use pagetoll_bill::{Opt, Route};

    use super::*;

    fn parsed(arguments: &[String]) -> BillArgs {
        let words = ["pagetoll", "bill"].map(str::to_owned);
        let cli = Cli::try_parse_from(words.iter().chain(arguments)).unwrap();
        let Command::Bill(args) = cli.command else {
            panic!("not a bill");
        };
        *args
    }

    fn arguments(route: Route) -> Vec<Arg> {
        let command = Cli::command();
        let bill = command.find_subcommand("bill").unwrap();
        let route = bill.find_subcommand(route.name()).unwrap();
        route.get_arguments().cloned().collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bill_without_options_has_none_given() {
        for &route in Route::ALL {
            let args = parsed(&[route.name().to_owned()]);
            assert_eq!((args.spec.route, args.on), (route, None));
            assert_eq!(args.given, []);
        }
    }

    #[test]
    fn every_argument_of_a_bill_is_an_option_that_is_given_when_it_is_said() {
        for arg in arguments(Route::Pin) {
            let flag = arg.get_long().unwrap().to_owned();
            if ["on", "format", "output"].contains(&flag.as_str()) {
                continue;
            }
            let option = Opt::find(&flag).unwrap_or_else(|| panic!("--{flag}: is no option"));
            let values = arg.get_possible_values();
            let value = match (arg.get_action().takes_values(), values.first()) {
                (false, _) => String::new(),
                (true, Some(first)) => format!("={}", first.get_name()),
                (true, None) => "=1".to_owned(),
            };
            let args = parsed(&["pin".to_owned(), format!("--{flag}{value}")]);
            assert_eq!(args.given, [option]);
        }
        for option in Opt::all() {
            let is_it = |arg: &Arg| arg.get_long() == Some(option.name);
            assert!(arguments(Route::Pin).iter().any(is_it), "{option}");
        }
    }

    #[test]
    fn help_shows_what_applies_to_a_route_and_names_backends_that_its_heading_does_not() {
        let shown = |route, flag: &str| {
            let all = arguments(route);
            let arg = all.iter().find(|arg| arg.get_long() == Some(flag)).unwrap();
            let help = arg.get_help().unwrap().to_string();
            let suffix = help.rsplit_once(" (").map(|(_, end)| format!("({end}"));
            (!arg.is_hide_set()).then_some(suffix.filter(|end| end.ends_with(')')))
        };
        let backends = |names: &str| Some(Some(names.to_owned()));
        assert_eq!(shown(Route::Demand, "wait"), backends("(live)"));
        assert_eq!(shown(Route::Demand, "readers"), backends("(live, sim)"));
        assert_eq!(shown(Route::Demand, "seed"), backends("(live, sim)"));
        assert_eq!(shown(Route::Unmap, "seed"), backends("(sim)"));
        assert_eq!(shown(Route::Unmap, "fresh"), Some(None));
        assert_eq!(shown(Route::Unmap, "wait"), None);
    }
}

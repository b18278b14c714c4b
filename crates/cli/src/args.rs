//! The command line as it was said, checked for form only; commands and backends resolve it.

mod advise;
mod bill;
mod bisect;
mod cache;
mod calibrate;
mod completions;
mod diff;
mod fix;
mod man;
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

pub(crate) use advise::AdviseArgs;
pub(crate) use bill::{BillArgs, CountArgs};
pub(crate) use bisect::{BisectArgs, BisectCommand, BisectOrder, Judging, RunOneArgs};
pub(crate) use cache::{CacheArgs, CacheCommand, CleanArgs};
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use completions::CompletionsArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use fix::{
    BuildArgs, FixArgs, FixBuildArgs, FixCheckArgs, FixCommand, FixExportArgs, FixShowArgs,
};
pub(crate) use man::ManArgs;
pub(crate) use output::{ListOutputArgs, OutputArgs};
pub(crate) use read::{ALL_SOURCES, ReadArgs};
pub(crate) use report::ReportArgs;
pub(crate) use sweep::{PlaceArgs, ShowArgs, SweepArgs, SweepCommand, SweepOn, SweepOrder};

const LONG_ABOUT: &str = "\
Itemise what every page of memory costs a virtual machine.

A guest that unmaps, faults, flushes, pins or pages in memory pays the hypervisor a toll for every page: a trap, an \
emulated instruction, a hypercall, a lock. pagetoll counts these tolls on real Xen and Linux kernels and prints a \
bill: for each mechanism its cost per page, item by item, with safety checks and exactly what was run.";

/// Heading of the options that every command has, the last one of its help.
const GLOBAL: &str = "Global options";

const EXIT_CODES: &str = "\
Exit codes: 0 ok, 1 a check failed or something regressed, 2 bad usage or input, 3 this machine lacks something or a guest failed; \
128 + N after signal N (130 for Ctrl-C).";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "pagetoll",
    version,
    about = "Itemise what every page of memory costs a virtual machine",
    disable_help_flag = true,
    disable_version_flag = true
)]
#[command(long_about = LONG_ABOUT, after_long_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print timings and resolved inputs on stderr; -vv: every step
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GLOBAL)]
    verbose: u8,
    /// Print only errors and failed checks on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = GLOBAL)]
    quiet: bool,
    /// Print help; -h prints a summary
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,
    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL)]
    version: Option<bool>,
    /// Subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Amount of messages on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors and failed checks.
    Silent,
    /// Progress on a terminal and notes that change how a bill is to be read, beside errors and failed checks.
    Quiet,
    /// Timings and resolved inputs.
    Summary,
    /// Every step.
    Debug,
}

impl Cli {
    /// Amount of messages on stderr, by -v and -q.
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
    /// Bill a route: cost per page, item by item, by each mechanism
    #[command(subcommand)]
    Bill(Box<BillArgs>),
    /// Count a program of your own on any kernel: instructions per operation, exactly
    #[command(after_long_help = pagetoll_bill::Route::Count.examples())]
    Count(Box<CountArgs>),
    /// Print a saved bill, or plot several over kernel, vCPUs, batch, ...
    #[command(after_long_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Compare two bills of a route; exit 1 on a regression
    #[command(after_long_help = diff::EXAMPLES)]
    Diff(DiffArgs),
    /// Run the missing jobs of a plan in parallel; list results
    #[command(after_long_help = sweep::EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Find the first kernel where a row regressed, and the toll responsible
    #[command(after_long_help = bisect::EXAMPLES)]
    Bisect(Box<BisectArgs>),
    /// List routes, their mechanisms, and the backends available here
    Routes(ListOutputArgs),
    /// Check this machine's prerequisites and print how to install what is missing
    Doctor(DoctorArgs),
    /// Analyse a capture (xentrace, perf, KVM counters): cost per page, by function; compare two
    #[command(after_long_help = read::EXAMPLES)]
    Read(ReadArgs),
    /// Recommend fixes for a capture or for this host, with the measured gain of each
    #[command(after_long_help = advise::EXAMPLES)]
    Advise(AdviseArgs),
    /// Run the conformance suites on model and real system; report differences
    Conformance(ConformanceArgs),
    /// Model-check the unmap mechanisms; print the shortest interleaving that loses an A or D bit
    Search(ListOutputArgs),
    /// List, show, build and check pagetoll's patches of Linux and Xen
    #[command(after_long_help = fix::EXAMPLES)]
    Fix(FixArgs),
    /// List, verify and clean cached packages, images and builds
    #[command(after_long_help = cache::EXAMPLES)]
    Cache(CacheArgs),
    /// Make a cost table for the simulator, from bills or this host
    #[command(after_long_help = calibrate::EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Compare the simulator with published figures, or with this host
    Validate(ValidateArgs),
    /// Print shell completions, to be sourced or installed
    #[command(after_long_help = completions::EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write all pages
    #[command(after_long_help = man::EXAMPLES)]
    Man(ManArgs),
    /// Restore one guest of a bill, as standard input orders
    #[command(hide = true)]
    RestoreClone {
        /// The process that orders, with which this one ends
        parent: i32,
    },
    /// Take the guest of a migration, as its source on standard input says
    #[command(hide = true)]
    MigrateDestination {
        /// The process that migrates, with which this one ends
        parent: i32,
    },
    /// Undo what a run has changed on this host, when standard input ends
    #[command(hide = true)]
    Guard {
        /// Journal of the changes
        journal: PathBuf,
    },
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Compare the figures of these lists instead of those that come with pagetoll; docs/validation.md has their form
    #[arg(value_name = "FILE", conflicts_with = "live")]
    pub(crate) files: Vec<PathBuf>,
    /// Compare bills and model of demand paging on this host: 1 to 4 vCPUs
    #[arg(long)]
    pub(crate) live: bool,
    /// With --live: use this table of calibrate --this-host [default: measure now]
    #[arg(long, value_name = "TABLE", requires = "live")]
    pub(crate) costs: Option<String>,
    /// With --live: page in N pages per vCPU [default: 4096]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = number::<u64>)]
    pub(crate) pages: Option<u64>,
    /// With --live: repeat every order N times [default: 5]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = number::<u32>)]
    pub(crate) runs: Option<u32>,
    /// With --live: accept a busy host, whose times are too long
    #[arg(long, requires = "live")]
    pub(crate) busy: bool,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Install what is missing by apt-get, as root or passwordless sudo
    #[arg(long)]
    pub(crate) install: bool,
    /// Check for a lab with machines of this processor
    #[arg(long, default_value = "x86-64")]
    pub(crate) arch: Arch,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Arguments of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Run this suite
    #[arg(long, value_name = "SUITE", default_value = "xen")]
    pub(crate) suite: ConformanceSuite,
    /// Run on these systems; one alone is compared with recorded answers
    #[arg(long, value_name = "SYSTEM", default_value = "both")]
    pub(crate) on: ConformanceSystems,
    /// Run only cases whose name contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) case: String,
    /// Write the real system's answers to this file, as in conformance/
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Run vfio or kvm in the lab on this processor [default: x86-64]
    #[arg(long)]
    pub(crate) arch: Option<Arch>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Keep the console of the guest in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

impl ConformanceArgs {
    /// Options of the lab.
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

    /// Tests for the lab where this host could answer as well.
    pub(crate) fn wants_lab(&self) -> bool {
        self.arch.is_some() || self.on == ConformanceSystems::Lab
    }
}

/// A kernel and a hypervisor.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Boot this kernel: debian, debian:SUITE, debian:SUITE/VERSION, fix:NAME, fix:none, or an image [default: debian]
    #[arg(long, value_name = "SRC")]
    pub(crate) kernel: Vec<String>,
    /// Build the probe for a --kernel file in its build folder DIR
    #[arg(long, value_name = "DIR")]
    headers: Option<PathBuf>,
    /// Take modules of a --kernel file from modules_install tree DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// Boot this Xen: debian, debian:SUITE, fix:NAME, fix:none, or an image [default: debian]
    #[arg(long, value_name = "SRC")]
    xen: Option<String>,
}

/// Suites of conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSuite {
    /// Xen: page-table updates of a PV guest
    Xen,
    /// VFIO: mapping memory for DMA
    Vfio,
    /// KVM: memslots and userfaultfds, on this host or in the lab
    Kvm,
}

/// Systems that answer the conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSystems {
    /// The real system, in the lab
    Lab,
    /// The real system, on this host: kvm
    Live,
    /// The model
    Sim,
    /// Both
    Both,
}

impl ConformanceSystems {
    /// Name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Live => "live",
            Self::Sim => "sim",
            Self::Both => "both",
        }
    }
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
    fn options_of_every_command_come_last_under_a_heading_of_their_own() {
        fn check(command: &clap::Command) {
            let is_global = |arg: &&Arg| arg.get_help_heading() == Some(GLOBAL);
            let all: Vec<_> = command.get_arguments().collect();
            let global = all.iter().skip_while(|arg| !is_global(arg));
            let flags: Vec<_> = global.filter_map(|arg| arg.get_short()).collect();
            let expected: &[char] = match command.get_name() {
                "pagetoll" => &['v', 'q', 'h', 'V'],
                _ => &['v', 'q', 'h'],
            };
            assert_eq!(flags, expected, "{}", command.get_name());
            // clap's own command help has no options.
            let subcommands = command.get_subcommands();
            let own = subcommands.filter(|command| command.get_name() != "help");
            own.for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&command);
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
            let Some(flag) = arg.get_long().map(str::to_owned) else {
                continue;
            };
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

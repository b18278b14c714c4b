//! Exactly what the user said, checked for form only; what it means is settled in [`request`](crate::request).

mod calibrate;
pub(crate) mod demand;
mod diff;
mod fix;
mod pin;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pagetoll_bill::{Backend, Route};
use pagetoll_lab::LIMITS;

use crate::support::BACKENDS;

pub(crate) use calibrate::CalibrateArgs;
pub(crate) use diff::{DiffArgs, DiffFormat};
pub(crate) use fix::{BuildArgs, FixArgs, FixBuildArgs, FixCheckArgs, FixCommand, FixShowArgs};
pub(crate) use pin::PinArgs;

const LONG_ABOUT: &str = "\
Itemises what every page of memory costs a virtual machine.

A guest that unmaps, faults, flushes, pins or pages in memory pays the hypervisor a toll for every page: a trap, an \
emulated instruction, a hypercall, a lock. pagetoll counts these tolls on real Xen and Linux kernels and prints a \
bill: for each mechanism its cost per page, item by item, with safety checks and exactly what was run.";

const EXIT_CODES: &str = "\
Exit codes: 0 ok, 1 a check failed or a guest did, 2 bad usage or input, 3 this machine lacks something; \
128 + N after signal N (130 for Ctrl-C).";

const BILL_EXAMPLES: &str = "\
Examples:
  pagetoll bill unmap
      Every mechanism at batches of 1, 8, 32, 128 and 512 pages, in exact instruction counts
  pagetoll bill unmap --mechanism emulate,preserve-ad --batch 32
      Only the trapped exchange of today and its way out, 32 pages at a time
  pagetoll bill unmap --output bill.json
      Keeps the bill; `pagetoll report bill.json` prints it again, in any format
  pagetoll bill unmap --kernel debian:trixie-backports
      On the newest kernel of another suite
  pagetoll bill unmap --kernel arch/x86/boot/bzImage --headers . --xen xen/xen.gz
      On a kernel and a Xen of your own
  pagetoll bill pin --kernel debian:trixie-backports/6.17 --kernel debian:trixie-backports/6.18
      Mapping memory for DMA, a column for each kernel
  pagetoll bill unmap --runs 5 --format csv
      Five independent boots, with the deviation between them
  pagetoll bill demand
      Demand paging on this host's KVM: one userfaultfd against exits, on 1, 2 and 4 vCPUs
  pagetoll bill demand --vcpus 2 --readers 2 --pin together --memory shmem --faults minor
      Minor faults of shared memory, with a reader on the CPU of each vCPU
  pagetoll bill demand --on sim --costs x86-256-core --vcpus 1,2,4,8,16,32,64,128,256
      What a machine of 256 CPUs makes of it, beside what was published of one

  pagetoll bill unmap --kernel fix:none --kernel fix:xen-pv-get-and-clear
      Side by side: the same kernel without and with a fix; the second is compared with the first

CSV has one line for each row and one column for each scalar, named as in JSON: first the bill's own, then the row's \
(runs separated by semicolons), then crossings.NAME, tolls.NAME.count_per_page, tolls.NAME.cost_each, and \
checks.NAME.tried, .failed, .control_failed and .verdict for every NAME that occurs in the bill. Notes and provenance \
are in the other forms.";

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
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors, and notes that change how a bill is to be read.
    Quiet,
    /// Where the time went, and what was resolved.
    Summary,
    /// Every step.
    Debug,
}

impl Cli {
    /// How much is to be said on stderr.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match self.verbose {
            0 => Verbosity::Quiet,
            1 => Verbosity::Summary,
            _ => Verbosity::Debug,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bills a route: what each page costs, by each mechanism
    #[command(after_long_help = BILL_EXAMPLES)]
    Bill(Box<BillArgs>),
    /// Prints a saved bill as its run would have printed it
    Report(ReportArgs),
    /// Compares two bills of a route: what got dearer, and what cheaper
    #[command(after_long_help = diff::EXAMPLES)]
    Diff(DiffArgs),
    /// Lists what can be billed, by which mechanism, on which backend, here
    Routes(ListArgs),
    /// Says what works on this machine, and how to get the rest
    Doctor(DoctorArgs),
    /// Counts the traps and hypercalls of an xentrace capture
    Trace(TraceArgs),
    /// Asks a simulated and a real system the same, and compares the answers
    Conformance(ConformanceArgs),
    /// Tries all orders of clearing page-table entries against using them, and prints one that loses a bit
    Search(ListArgs),
    /// Lists, shows, builds and checks the kernel patches that pagetoll carries
    #[command(after_long_help = fix::EXAMPLES)]
    Fix(FixArgs),
    /// Makes a cost table for the simulator, from bills of the lab or by measuring this host
    #[command(after_long_help = calibrate::EXAMPLES)]
    Calibrate(CalibrateArgs),
    /// Sets published figures, or those of this host, beside what the simulator makes of them
    Validate(ValidateArgs),
    /// Writes manual pages and shell completions into a folder
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// What `bill` was told.
#[derive(Debug, Args)]
pub(crate) struct BillArgs {
    /// The route that the pages travel
    #[arg(value_parser = route())]
    pub(crate) route: Route,
    /// Where it is travelled; without this, where the best evidence is to be had
    #[arg(long, value_name = "BACKEND", value_parser = backend())]
    pub(crate) on: Option<Backend>,
    /// The mechanisms to bill, of those that `pagetoll routes` lists; without this, all of them but what 32-bit guests alone have of unmap on the lab
    #[arg(long, value_name = "M,..", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// Pages billed in each row; of demand, pages of each vCPU [default: 16384; 65536 for route pin, 2097152 for it with --on live]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::<u64>(text, LIMITS.pages.get()))]
    pub(crate) pages: Option<u64>,
    /// Pages taken at once, by the mechanisms that take several [default: 1,8,32,128,512; of demand 1,16,64, with --on sim 1]
    #[arg(long, value_name = "B,..", value_delimiter = ',')]
    #[arg(value_parser = |text: &str| number::<u32>(text, LIMITS.batch.into()), allow_negative_numbers = true)]
    pub(crate) batch: Option<Vec<u32>>,
    /// Independent repetitions, each from a fresh boot [default: 1; of demand 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::<u32>(text, LIMITS.runs.into()))]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) demand: demand::DemandArgs,
    #[command(flatten)]
    pub(crate) sim: SimArgs,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Asks the package mirror what it offers today instead of using what was recorded
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Keeps the guests' consoles and traces in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
    /// Gives a guest up that reports nothing for this long, 1 to 3600 [default: 60 and what the pages take]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) silence: Option<Duration>,
    /// How the bill is printed; without this, as the ending of --output says, else text
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Writes the bill to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What the simulator is to reckon with.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// With --on sim: the machine's costs, a name that `pagetoll routes` lists or the path of a cost table
    #[arg(long, value_name = "TABLE")]
    pub(crate) costs: Option<String>,
    /// With --on sim: how often the cost table's spread is sampled; 1 takes its values as they are [default: 200; of demand 40]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::<u32>(text, MOST_SAMPLES.into()))]
    pub(crate) samples: Option<u32>,
    /// With --on sim: where the sequence of samples begins; of demand, what random orders and mixed accesses are made from
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// With --on sim: a system that differs from the real one in one thing
    #[arg(long, value_name = "WHAT")]
    pub(crate) what_if: Option<WhatIf>,
    /// With --on sim and one --mechanism of flush: writes who paid what and when, as folded stacks (.folded) or for ui.perfetto.dev (.pftrace)
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// With --on sim, of demand: names the figures of the cost table that dominate each row
    #[arg(long)]
    pub(crate) sensitivity: bool,
}

/// What a simulated system does otherwise than the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhatIf {
    /// flush: wait for flush_lock with interrupts off, against Xen's assertion
    InterruptsOff,
    /// demand: looking at an entry of a wait queue costs nothing
    NoWalks,
    /// demand: the cache line of mm_users and mmap_lock is everywhere at once
    MmUsersFree,
    /// demand: contended cache lines go to who has waited for longest
    FifoLines,
}

/// More samples than any quantile that is printed needs.
pub(crate) const MOST_SAMPLES: u32 = 100_000;

/// What the lab shall boot.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// The kernel: debian, debian:SUITE, debian:SUITE/VERSION, fix:NAME, fix:none, or the path of a bzImage or vmlinux; several, where a route takes them, are set side by side
    #[arg(long, value_name = "SRC", default_value = "debian")]
    pub(crate) kernel: Vec<String>,
    /// The folder to build modules in for a kernel given by its path
    #[arg(long, value_name = "DIR")]
    pub(crate) headers: Option<PathBuf>,
    /// The hypervisor: debian, debian:SUITE, or the path of a Xen image
    #[arg(long, value_name = "SRC", default_value = "debian")]
    pub(crate) xen: String,
}

/// What `report` was told.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A bill in JSON; - reads standard input
    pub(crate) file: PathBuf,
    /// How the bill is printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
}

/// What `routes` was told.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How the list is printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ListFormat,
}

/// What `validate` was told.
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
    #[arg(value_parser = |text: &str| number::<u64>(text, LIMITS.pages.get()))]
    pub(crate) pages: Option<u64>,
    /// With --live: runs of each order [default: 5]
    #[arg(
        long,
        value_name = "N",
        requires = "live",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = |text: &str| number::<u32>(text, LIMITS.runs.into()))]
    pub(crate) runs: Option<u32>,
    /// How the comparison is printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ListFormat,
}

/// What `doctor` was told.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Installs what is missing through apt-get, as root or by sudo without a password
    #[arg(long)]
    pub(crate) install: bool,
    /// How the findings are printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ListFormat,
}

/// What `trace` was told.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A file that xentrace wrote; - reads standard input
    pub(crate) file: PathBuf,
    /// How the counts are printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ListFormat,
}

/// What `conformance` was told.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// What is asked: xen, updates of a PV guest's page tables; vfio, mapping memory for DMA; kvm, memslots and userfaultfds
    #[arg(long, value_name = "SUITE", default_value = "xen")]
    pub(crate) suite: ConformanceSuite,
    /// Which systems answer; one alone is compared with the answers that were recorded on a real one
    #[arg(long, value_name = "SYSTEM", default_value = "both")]
    pub(crate) on: ConformanceSystems,
    /// How the answers are printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ListFormat,
    /// Only the cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) case: String,
    /// Writes the real system's answers to this file, as conformance/ keeps them
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    /// Keeps the guest's console in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_logs: Option<PathBuf>,
}

/// Which conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSuite {
    /// Xen's page-table updates
    Xen,
    /// VFIO's maps and unmaps
    Vfio,
    /// KVM's memslots and userfaultfds, on this host
    Kvm,
}

/// Who answers the conformance cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceSystems {
    /// The real one, in the lab: xen and vfio
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

/// What `generate` was told.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The folder, made where needed
    pub(crate) folder: PathBuf,
}

/// The forms of a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for a terminal
    Text,
    /// Everything, as docs/bill-schema.json describes
    Json,
    /// One line for each row, one column for each figure
    Csv,
    /// Tables as GitHub shows them
    Md,
}

/// The forms of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For a terminal
    Text,
    /// For programs
    Json,
}

fn route() -> impl TypedValueParser<Value = Route> {
    let values = Route::ALL.map(|route| PossibleValue::new(route.name()).help(route.summary()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Route>())
}

fn backend() -> impl TypedValueParser<Value = Backend> {
    let values = BACKENDS.map(|backend| PossibleValue::new(backend_name(backend)));
    PossibleValuesParser::new(values)
        .try_map(|name| serde_json::from_value::<Backend>(serde_json::Value::String(name)))
}

/// The longest that a silent guest is waited for: an hour.
const MOST_SECONDS: u64 = 3600;

fn seconds(text: &str) -> Result<Duration, String> {
    let range = 1..=MOST_SECONDS;
    let seconds = text.parse().ok().filter(|n| range.contains(n));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| expected_number(MOST_SECONDS))
}

const fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Lab => "lab",
        Backend::Live => "live",
        Backend::Sim => "sim",
    }
}

/// Whether it is in range is the order's to judge; here it only has to be a number.
fn number<N: FromStr>(text: &str, most: u64) -> Result<N, String> {
    text.parse().map_err(|_| expected_number(most))
}

fn expected_number(most: u64) -> String {
    format!("expected a whole number from 1 to {most}")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::words::word;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_guide() {
        let cli = Cli::parse_from(["pagetoll", "bill", "unmap"]);
        let Command::Bill(bill) = cli.command else {
            panic!("not a bill");
        };
        assert_eq!((bill.pages, bill.runs, bill.batch), (None, None, None));
        assert!(bill.mechanism.is_empty() && bill.on.is_none());
        assert!(bill.demand.are_absent());
    }

    #[test]
    fn every_backend_is_known_by_its_word() {
        for backend in BACKENDS {
            let cli = Cli::parse_from(["pagetoll", "bill", "unmap", "--on", &word(backend)]);
            let Command::Bill(bill) = cli.command else {
                panic!("not a bill");
            };
            assert_eq!(bill.on, Some(backend));
        }
    }

    #[test]
    fn what_is_no_number_is_told_what_was_expected() {
        let refused = |text| number::<u32>(text, 512).unwrap_err();
        for text in ["", "1e99", "0x10", "-1", "4294967296"] {
            assert_eq!(refused(text), "expected a whole number from 1 to 512");
        }
        assert_eq!(number::<u32>("513", 512), Ok(513));
    }
}

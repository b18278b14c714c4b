//! From what the user said to a validated order: nothing is started before this has succeeded.

mod demand;
mod demand_sim;
mod kernels;
mod pin;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pagetoll_bill::{Backend, Limits, Order, Route, Support};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;
use pagetoll_lab::request::{DEFAULT_PAGES, silence};
use pagetoll_lab::{LIMITS, Request};
use pagetoll_sim::routes::{self as billing, Samples, WaitsWith};
use pagetoll_units::Pages;

use crate::args::{BillArgs, Format, MOST_SAMPLES, WhatIf};
use crate::failure::Failure;
use crate::hosts;
use crate::support::{self, BACKENDS};
use crate::timeline::TimelineOrder;

pub(crate) use kernels::{Kernel, Origin, kernel};

/// A bill that can be made, as far as can be told beforehand.
#[derive(Debug)]
pub(crate) struct BillRequest {
    /// What is to be done, on which backend.
    pub(crate) work: Work,
    /// Why this backend was chosen.
    pub(crate) backend_reason: String,
    /// How the bill is printed.
    pub(crate) format: Format,
    /// Where to; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
}

/// What a backend is to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Real systems are to be booted: the same order on each kernel.
    Lab(Box<Request>, Vec<Kernel>),
    /// Memory is to be paged in on this host.
    Demand(Box<pagetoll_live::routes::demand::Request>),
    /// The model of demand paging is to be run.
    DemandSim(Box<pagetoll_sim::routes::demand::Request>),
    /// Simulated systems are to be travelled.
    Sim(Box<billing::Request>, Option<TimelineOrder>),
    /// Real kernels are to map memory.
    Pin(Box<pagetoll_lab::routes::pin::Request>),
    /// The model of VFIO is to map memory.
    PinSim(Box<pagetoll_sim::routes::pin::Request>),
    /// This machine is to run the pinning loops.
    PinLive(Box<pagetoll_live::routes::pin::Request>),
}

impl BillRequest {
    /// Validates what was said. `command` is how it was said.
    pub(crate) fn new(args: BillArgs, command: String) -> Result<Self> {
        let (backend, backend_reason) = chosen(args.route, args.on)?;
        check_output(args.output.as_deref())?;
        check_options(&args)?;
        let timeline = TimelineOrder::new(&args, backend)?;
        Ok(Self {
            backend_reason,
            format: args.format.unwrap_or(format_of(args.output.as_deref())),
            output: args.output.clone(),
            work: match (args.route, backend) {
                (Route::Pin, Backend::Lab) => Work::Pin(Box::new(pin::lab(args, command)?)),
                (Route::Pin, Backend::Sim) => Work::PinSim(Box::new(pin::sim(&args, command)?)),
                (Route::Pin, Backend::Live) => Work::PinLive(Box::new(pin::live(&args, command)?)),
                (Route::Demand, Backend::Lab) => demand::lab(args, command)?,
                (_, Backend::Lab) => lab(args, command)?,
                (Route::Demand, Backend::Sim) => {
                    Work::DemandSim(Box::new(demand_sim::sim(&args, command)?))
                }
                (_, Backend::Sim) => Work::Sim(Box::new(sim(args, command)?), timeline),
                (_, Backend::Live) => Work::Demand(Box::new(demand::live(&args, command)?)),
            },
        })
    }
}

/// Options of one route must not be ignored silently by another.
fn check_options(args: &BillArgs) -> Result<(), Failure> {
    match args.route {
        Route::Demand => Ok(()),
        _ if args.demand.are_absent() => Ok(()),
        other => Err(Failure::BadInput(format!(
            "route {other} has none of the options of demand (--vcpus, --readers, --memory, ...)"
        ))),
    }
}

/// Batches that show per-call and per-entry costs apart, in pages.
const BATCHES: [u32; 5] = [1, 8, 32, 128, 512];

/// How often a host table is sampled, and from where.
fn samples(args: &BillArgs) -> Result<Samples, Failure> {
    samples_or(args, billing::DEFAULT_SAMPLES)
}

/// The same with another number where nobody says one.
fn samples_or(args: &BillArgs, default: u32) -> Result<Samples, Failure> {
    let count = args.sim.samples.unwrap_or(default);
    if !(1..=MOST_SAMPLES).contains(&count) {
        let problem = format!("--samples {count}: expected 1 to {MOST_SAMPLES}");
        return Err(Failure::BadInput(problem));
    }
    Ok(Samples {
        count,
        seed: args.sim.seed,
    })
}

/// How `flush_lock` is waited for.
fn waits(args: &BillArgs) -> Result<WaitsWith, Failure> {
    let of_demand = |what: &str| {
        let problem = format!(
            "{what}: route {} has none; expected route demand",
            args.route
        );
        Err(Failure::BadInput(problem))
    };
    if args.sim.sensitivity {
        return of_demand("--sensitivity");
    }
    match args.sim.what_if {
        Some(WhatIf::InterruptsOff) => Ok(WaitsWith::InterruptsOff),
        None => Ok(WaitsWith::InterruptsOn),
        Some(WhatIf::NoWalks | WhatIf::MmUsersFree | WhatIf::FifoLines) => of_demand("--what-if"),
    }
}

fn sim(args: BillArgs, command: String) -> Result<billing::Request> {
    let order = order(&args, (Backend::Sim, billing::LIMITS))?;
    Ok(billing::Request {
        route: args.route,
        order,
        host: hosts::find(args.sim.host.as_deref(), args.route)?,
        samples: samples(&args)?,
        waits: waits(&args)?,
        command,
    })
}

fn lab(args: BillArgs, command: String) -> Result<Work> {
    let order = order(&args, (Backend::Lab, LIMITS))?;
    check_folder("--keep-logs", args.keep_logs.as_deref())?;
    let kernels = kernels::kernels(&args.images)?;
    let request = Request {
        route: args.route,
        silence: args.silence.unwrap_or_else(|| silence(order.pages)),
        order,
        // Each of the kernels takes this place in turn.
        kernel: KernelSource::default(),
        xen: args.images.xen.parse::<XenSource>()?,
        freshness: freshness(args.refresh),
        keep_logs: args.keep_logs,
        command,
    };
    Ok(Work::Lab(Box::new(request), kernels))
}

/// The backend and why it is that, or why there is none.
fn chosen(route: Route, on: Option<Backend>) -> Result<(Backend, String), Failure> {
    match (on, support::best(route)) {
        (_, None) => Err(refused(&format!("route {route}"), &support::reasons(route))),
        (Some(backend), _) => match support::support(route, backend) {
            Support::Yes => Ok((backend, format!("ordered by --on {backend}"))),
            Support::No(reason) => Err(refused(
                &format!("--on {backend} for route {route}"),
                &format!("\n  {reason}"),
            )),
        },
        (None, Some(best)) => Ok((best, reason_for(route, best))),
    }
}

fn refused(what: &str, reasons: &str) -> Failure {
    let billable = support::billable();
    Failure::BadInput(format!(
        "{what}: cannot be billed; expected one of: {billable}{reasons}"
    ))
}

fn reason_for(route: Route, best: Backend) -> String {
    let alone = BACKENDS
        .into_iter()
        .filter(|backend| support::support(route, *backend) == Support::Yes)
        .count()
        == 1;
    let evidence = match best {
        Backend::Lab => "its counts are exact",
        Backend::Live => "it measures this host",
        Backend::Sim => "it models what cannot be run here",
    };
    let only = if alone {
        format!("the only backend that bills {route}")
    } else {
        format!("the best evidence for {route} that is to be had")
    };
    format!("{only}; {evidence}")
}

fn order(args: &BillArgs, (backend, limits): (Backend, Limits)) -> Result<Order, Failure> {
    let asked = Order {
        pages: args.pages.map_or(DEFAULT_PAGES, Pages),
        batches: args.batch.clone().unwrap_or(BATCHES.to_vec()),
        mechanisms: args.mechanism.clone(),
        runs: args.runs.unwrap_or(1),
    };
    Order::new((args.route, backend), asked, limits)
        .map_err(|error| Failure::BadInput(error.to_string()))
}

pub(crate) fn freshness(refresh: bool) -> Freshness {
    if refresh {
        Freshness::Refresh
    } else {
        Freshness::Cached
    }
}

fn format_of(output: Option<&Path>) -> Format {
    let ending = output.and_then(Path::extension).and_then(|e| e.to_str());
    match ending {
        Some("json") => Format::Json,
        Some("csv") => Format::Csv,
        Some("md") => Format::Md,
        _ => Format::Text,
    }
}

/// That the bill cannot be written must not turn out after a minute of work.
fn check_output(output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output else { return Ok(()) };
    let bad = |problem: &str| {
        Failure::BadInput(format!(
            "--output {}: {problem}; expected a file in an existing folder",
            path.display()
        ))
    };
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(bad("is no file")),
    };
    match (path.is_dir(), folder.is_dir()) {
        (true, _) => Err(bad("is a folder")),
        (_, false) => Err(bad("its folder does not exist")),
        _ => Ok(()),
    }
}

pub(crate) fn check_folder(flag: &str, folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        Some(path) if path.exists() && !path.is_dir() => Err(Failure::BadInput(format!(
            "{flag} {}: is a file; expected a folder",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// How the program was called, to be pasted into a shell. The path of the program itself says nothing.
pub(crate) fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let given = arguments
        .skip(1)
        .map(|argument| quoted(&argument.to_string_lossy()));
    let words: Vec<_> = ["pagetoll".to_owned()].into_iter().chain(given).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn request(arguments: &[&str]) -> Result<BillRequest> {
        let cli = Cli::parse_from([&["pagetoll", "bill"], arguments].concat());
        let Command::Bill(bill) = cli.command else {
            panic!("not a bill");
        };
        BillRequest::new(*bill, "pagetoll bill".into())
    }

    fn refusal(arguments: &[&str]) -> String {
        request(arguments).unwrap_err().to_string()
    }

    #[test]
    fn the_default_order_is_the_labs_and_says_why() {
        let request = request(&["unmap"]).unwrap();
        let Work::Lab(lab, kernels) = &request.work else {
            panic!("not the lab's");
        };
        assert_eq!(kernels.len(), 1);
        let order = &lab.order;
        assert_eq!(order.pages, Pages(16_384));
        assert_eq!(order.mechanisms.len(), 6);
        assert_eq!(
            request.backend_reason,
            "the best evidence for unmap that is to be had; its counts are exact"
        );
        assert_eq!(request.format, Format::Text);
    }

    #[test]
    fn what_cannot_be_billed_is_refused_with_what_can() {
        let text = refusal(&["unmap", "--on", "live"]);
        assert!(text.starts_with("--on live for route unmap"));
        assert!(text.contains("unmap on lab, unmap on sim"), "{text}");
    }

    #[test]
    fn demand_is_billed_on_this_host_with_its_own_defaults() {
        let Work::Demand(demand) = request(&["demand"]).unwrap().work else {
            panic!("not this host");
        };
        assert_eq!(demand.vcpus, [1, 2, 4]);
        assert_eq!(
            (demand.order.batches.as_slice(), demand.order.runs),
            ([1, 16, 64].as_slice(), 5)
        );
        assert_eq!(demand.order.mechanisms.len(), 5);
        let text = refusal(&["demand", "--vcpus", "0"]);
        assert_eq!(text, "--vcpus 0: expected 1 to 64");
        assert!(
            refusal(&["unmap", "--vcpus", "2"]).contains("route unmap has none of the options")
        );
    }

    #[test]
    fn demand_in_the_lab_is_one_vcpu_with_one_reader() {
        let Work::Lab(lab, _) = request(&["demand", "--on", "lab"]).unwrap().work else {
            panic!("not the lab's");
        };
        assert_eq!(
            lab.order.mechanisms,
            ["populated", "uffd", "exit-on-missing"]
        );
        assert_eq!((lab.order.pages, lab.order.runs), (Pages(4096), 1));
        let text = refusal(&["demand", "--on", "lab", "--vcpus", "2"]);
        assert!(
            text.starts_with("--on lab for route demand: has none"),
            "{text}"
        );
        let text = refusal(&["demand", "--on", "lab", "--batch", "4"]);
        assert!(text.starts_with("--batch 4"), "{text}");
    }

    #[test]
    fn the_format_follows_the_file_unless_it_was_said() {
        let format = |arguments: &[&str]| request(arguments).unwrap().format;
        assert_eq!(format(&["unmap", "--output", "b.json"]), Format::Json);
        assert_eq!(format(&["unmap", "--output", "b.md"]), Format::Md);
        assert_eq!(format(&["unmap", "--output", "bill"]), Format::Text);
        assert_eq!(
            format(&["unmap", "--output", "b.json", "--format", "csv"]),
            Format::Csv
        );
    }

    #[test]
    fn an_output_that_cannot_be_written_is_refused_at_once() {
        assert!(refusal(&["unmap", "--output", "no-such-folder/b"]).contains("--output"));
        assert!(refusal(&["unmap", "--output", "."]).contains("is a folder"));
        assert!(refusal(&["unmap", "--keep-logs", "Cargo.toml"]).contains("--keep-logs"));
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = ["target/pagetoll", "bill", "--kernel", "my kernel's", ""];
        assert_eq!(
            command_line(words.into_iter().map(OsString::from)),
            r"pagetoll bill --kernel 'my kernel'\''s' ''"
        );
    }
}

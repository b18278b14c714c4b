//! The steps of orders: what a guest's programs carry out, a line each.
//!
//! A line is a verb and its arguments, separated by one space. The verbs of each program are those of its `run_step`;
//! a test reads them there.

#![expect(
    missing_docs,
    reason = "fields are the words of lines that the guests' programs document"
)]

use std::fmt::{self, Display};
use std::time::Duration;

use pagetoll_bill::route::lab::{Demand, Dirty, Restore};
use pagetoll_bill::route::{Discard, Unmap};
use pagetoll_bill::row::{Backing, Folio};
use pagetoll_bill::{Mechanism, Method, Operation, RowKey};
use pagetoll_units::Pages;
use serde::Deserialize;

/// Guest time that the kernel gets to finish its work after boot. Linux 7.2 takes 2 s; with `-icount sleep=off` idle
/// time costs no time of the host.
const SETTLE_SECONDS: u32 = 60;

/// A repetition of the probe: an operation, and the probe's word for its mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub operation: Operation,
    pub mechanism: &'static str,
}

impl Cell {
    pub fn new(operation: Operation, method: impl Into<Method>) -> Self {
        Self {
            operation,
            mechanism: method.into().name(),
        }
    }
}

/// A step of `guests/init`. `guests/pv32-probe` knows those that need neither modules nor user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Loads a module: a path below the root of the initramfs, and its parameters.
    Module(String),
    /// Waits until the kernel is idle, or for a minute of the guest's time.
    Settle,
    /// Makes costs of user space follow from what it does alone: large per-CPU page lists, randomness.
    Steady,
    /// Takes the PCI device with these ids from the kernel, until [`Step::Rescan`].
    Unplug { vendor: u16, device: u16 },
    /// Lets the kernel find the PCI devices that it does not know.
    Rescan,
    /// Pages, or repetitions, of the steps that follow.
    Pages(Pages),
    /// Clears entries by a mechanism of the probe.
    Clear { method: Method, batch: u32 },
    /// Clears entries on one vCPU while the other dirties pages, until so many were dirtied or the time is over.
    Race {
        mechanism: Unmap,
        batch: u32,
        dirtied: u64,
        limit_ms: u32,
    },
    /// Times what user space does with its memory.
    User(Operation),
    /// Maps or unmaps another domain's pages.
    Foreign { operation: Operation, batch: u32 },
    /// Takes an existing domain for the other one.
    Domain(u16),
    /// Makes the other domain, which is made at its first use else.
    ForeignPrepare,
    /// Makes a domain whose frames Xen translates, with memory from its first frame on.
    TranslatedDomain,
    /// Ends the other domain, and reports whether anything of it is left.
    ForeignRelease,
    /// Sets empty entries by a mechanism of the probe.
    Set(Method),
    /// Repeats an operation of the probe.
    Repeat(Cell),
    /// Times a system call or a switch between processes.
    Call(Operation),
    /// Runs the conformance cases in a file.
    Conformance(&'static str),
    /// Runs a check to its end.
    Check { name: String, pages: u32 },
    /// Runs a check to its first failure.
    Catch { name: String, pages: u32 },
    /// Reports warnings in the kernel's log.
    KernelLog,
    /// Runs a program with its order.
    Run {
        program: &'static str,
        order: &'static str,
    },
    /// Runs a command and reports its exit code.
    Try(Command),
    /// Reports the bytes of a file, after those of files before it.
    Publish(String),
    /// Reports whether Xen's trace is running, and which events it has.
    TraceState,
    /// Ends a trace that a process left running, with the choice of events that was there before it.
    TraceStop { mask: u32 },
    /// Reports a parameter of Xen that can be set while it runs.
    Parameter(&'static str),
    /// Sets it.
    SetParameter { name: String, value: u8 },
    /// Begins the profiles of Xen's locks anew.
    LockReset,
    /// Reports the profile of a global lock.
    LockProfile(&'static str),
    /// All CPUs flush each other's TLBs, so often together.
    Contend { count: u64 },
    /// Turns xentrace on, with buffers of so many pages for each CPU.
    TraceBegin { buffer_pages: u32 },
    /// Turns xentrace off and reports what it wrote.
    TraceEnd,
    /// Frees the memory that the probe's steps share.
    Release,
}

/// A command that is not one of the guests' own programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program's path and its arguments, without spaces.
    pub words: Vec<String>,
    /// A signal that it gets.
    pub ended: Option<Ended>,
}

/// A signal, and when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub signal: Signal,
    pub after: Duration,
}

/// A signal, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt = 2,
    Kill = 9,
    /// To all that the command has started as well, as by `systemctl stop`.
    Terminate = 15,
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(path) => write!(f, "module /{path}"),
            Self::Settle => write!(f, "settle {SETTLE_SECONDS}"),
            Self::Steady => write!(f, "steady"),
            Self::Pages(pages) => write!(f, "pages {}", pages.get()),
            Self::Clear { method, batch } => write!(f, "clear {method} {batch}"),
            Self::Race {
                mechanism,
                batch,
                dirtied,
                limit_ms,
            } => {
                let mechanism = Method::from(*mechanism);
                write!(f, "race {mechanism} {batch} {dirtied} {limit_ms}")
            }
            Self::User(operation) => write!(f, "user {operation}"),
            Self::Foreign { operation, batch } => write!(f, "foreign {operation} {batch}"),
            Self::Domain(id) => write!(f, "domain {id}"),
            Self::ForeignPrepare => write!(f, "foreign-prepare"),
            Self::TranslatedDomain => write!(f, "translated-domain"),
            Self::ForeignRelease => write!(f, "foreign-release"),
            Self::Set(method) => write!(f, "set {method}"),
            Self::Repeat(cell) => write!(f, "repeat {} {}", cell.operation, cell.mechanism),
            Self::Call(operation) => write!(f, "call {operation}"),
            Self::Conformance(file) => write!(f, "conformance /{file}"),
            Self::Check { name, pages } => write!(f, "check {name} {pages}"),
            Self::Catch { name, pages } => write!(f, "catch {name} {pages}"),
            Self::Unplug { vendor, device } => write!(f, "unplug {vendor:x} {device:x}"),
            Self::Rescan => write!(f, "rescan"),
            Self::KernelLog => write!(f, "kernel-log"),
            Self::Run { program, order } => write!(f, "run /{program} /{order}"),
            Self::Try(command) => {
                let signal = command.ended.map_or(0, |ended| ended.signal as i32);
                let after = command.ended.map_or(0, |ended| ended.after.as_millis());
                write!(f, "try {signal} {after} {}", command.words.join(" "))
            }
            Self::Publish(file) => write!(f, "publish {file}"),
            Self::TraceState => write!(f, "trace-state"),
            Self::TraceStop { mask } => write!(f, "trace-stop {mask}"),
            Self::Parameter(name) => write!(f, "parameter {name}"),
            Self::SetParameter { name, value } => write!(f, "parameter-set {name} {value}"),
            Self::LockReset => write!(f, "lock-reset"),
            Self::LockProfile(name) => write!(f, "lock-profile {name}"),
            Self::Contend { count } => write!(f, "contend {count}"),
            Self::TraceBegin { buffer_pages } => write!(f, "trace-begin {buffer_pages}"),
            Self::TraceEnd => write!(f, "trace-end"),
            Self::Release => write!(f, "release"),
        }
    }
}

impl Step {
    /// Returns whether this counts the cost of a row.
    #[must_use]
    pub fn bills(&self, row: &RowKey) -> bool {
        match self {
            Self::Clear { method, batch } => {
                let is_baseline = matches!(method, Method::Baseline(_));
                *method == row.method && (is_baseline || *batch == row.batch)
            }
            Self::Set(method) => *method == row.method,
            // A flush's mechanism is an option of Xen, not of the call.
            Self::Repeat(cell) => {
                let is_of_xen = matches!(row.method, Method::Mechanism(Mechanism::Flush(_)));
                cell.operation == row.operation
                    && (is_of_xen || cell.mechanism == row.method.name())
            }
            Self::User(operation) | Self::Call(operation) => *operation == row.operation,
            Self::Foreign { operation, batch } => {
                (*operation, *batch) == (row.operation, row.batch)
            }
            _ => false,
        }
    }
}

/// The steps at the beginning that make a guest ready, and the rest.
#[must_use]
pub fn divided(steps: &[Step]) -> (&[Step], &[Step]) {
    let prepares = |step: &Step| {
        matches!(
            step,
            Step::Settle | Step::Steady | Step::Module(_) | Step::Unplug { .. }
        )
    };
    let first = steps.iter().position(|step| !prepares(step));
    steps.split_at(first.unwrap_or(steps.len()))
}

/// Leaves out what is done under a trace.
pub fn remove_traced(steps: &mut Vec<Step>) {
    let begin = steps
        .iter()
        .position(|step| matches!(step, Step::TraceBegin { .. }));
    let end = steps.iter().position(|step| *step == Step::TraceEnd);
    if let Some((begin, end)) = begin.zip(end) {
        steps.drain(begin..=end);
    }
}

/// The interface by which `guests/pin-probe` maps memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// A container of VFIO type1.
    Type1,
    /// An I/O address space of iommufd.
    Iommufd,
}

impl Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Type1 => "type1",
            Self::Iommufd => "iommufd",
        })
    }
}

/// A step of `guests/pin-probe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinStep {
    /// Binds the device at this PCI address, behind the IOMMU, to vfio-pci.
    Device(&'static str),
    /// Takes the device at this PCI address, which is bound to vfio-pci.
    Bound(String),
    /// Maps and unmaps memory of a shape through an interface, and times each.
    Bill {
        interface: Interface,
        shape: Folio,
        pages: Pages,
        repeats: u32,
    },
    /// Maps and unmaps once with function_graph on.
    Trace {
        interface: Interface,
        shape: Folio,
        pages: Pages,
    },
    /// Runs the conformance cases in a file.
    Conformance(&'static str),
    /// Runs a check.
    Check { name: String, pages: u32 },
}

impl Display for PinStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(address) => write!(f, "device {address}"),
            Self::Bound(address) => write!(f, "bound {address}"),
            Self::Bill {
                interface,
                shape,
                pages,
                repeats,
            } => write!(f, "bill {interface} {shape} {} {repeats}", pages.get()),
            Self::Trace {
                interface,
                shape,
                pages,
            } => write!(f, "trace {interface} {shape} {}", pages.get()),
            Self::Conformance(file) => write!(f, "conformance /{file}"),
            Self::Check { name, pages } => write!(f, "check {name} {pages}"),
        }
    }
}

/// A step of `guests/demand-probe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DemandStep {
    /// Times the parts of a fault by themselves.
    Parts { batch: u32, repeats: u32 },
    /// Times a mechanism.
    Bill {
        mechanism: Demand,
        batch: u32,
        pages: Pages,
        repeats: u32,
    },
    /// Runs a check.
    Check { name: String, pages: u32 },
}

impl Display for DemandStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts { batch, repeats } => write!(f, "parts {batch} {repeats}"),
            Self::Bill {
                mechanism,
                batch,
                pages,
                repeats,
            } => {
                let mechanism = Method::from(*mechanism);
                write!(f, "bill {mechanism} {batch} {} {repeats}", pages.get())
            }
            Self::Check { name, pages } => write!(f, "check {name} {pages}"),
        }
    }
}

/// A step of `guests/dirty-probe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirtyStep {
    /// Times the phases of a mechanism.
    Bill { subject: Tracked, repeats: u32 },
    /// Counts pages that are written and not reported.
    Loss { subject: Tracked, rounds: u32 },
}

/// Memory whose written pages are found by a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    pub mechanism: Dirty,
    pub folio: Folio,
    /// Pages that one call clears, where that can be chosen.
    pub chunk: Pages,
    pub pages: Pages,
}

impl Display for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mechanism,
            folio,
            chunk,
            pages,
        } = self;
        let mechanism = Method::from(*mechanism);
        write!(f, "{mechanism} {folio} {} {}", chunk.get(), pages.get())
    }
}

impl Display for DirtyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bill { subject, repeats } => write!(f, "bill {subject} {repeats}"),
            Self::Loss { subject, rounds } => write!(f, "loss {subject} {rounds}"),
        }
    }
}

/// A step of `guests/discard-probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardStep {
    /// Times the calls on every second chunk, and the touches after them.
    Bill { subject: Discarded, repeats: u32 },
    /// Makes one call.
    Single(Discarded),
    /// Makes the calls beside their places.
    Misplace(Discarded),
    /// Does so, and writes words of no content to these places.
    MisplaceAndSpoil(Discarded),
    /// Asks what is held around a call that discards nothing, and one that discards all.
    Hold(Discarded),
    /// Times the clearing of pages.
    Clear(Pages),
}

/// Memory of a backing that is discarded by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discarded {
    pub call: Discard,
    pub backing: Backing,
    /// Pages of one call.
    pub chunk: u32,
    /// Pages of the guest.
    pub pages: Pages,
}

impl Display for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            backing,
            chunk,
            pages,
        } = self;
        let call = Method::from(*call);
        write!(f, "{call} {backing} {chunk} {}", pages.get())
    }
}

impl Display for DiscardStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bill { subject, repeats } => write!(f, "bill {subject} {repeats}"),
            Self::Single(subject) => write!(f, "single {subject}"),
            Self::Misplace(subject) => write!(f, "misplace {subject}"),
            Self::MisplaceAndSpoil(subject) => write!(f, "misplace-and-spoil {subject}"),
            Self::Hold(subject) => write!(f, "hold {subject}"),
            Self::Clear(pages) => write!(f, "clear {}", pages.get()),
        }
    }
}

/// A step of `guests/restore-probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// Counts a restore until each of its boundaries.
    Bill { subject: Restored, repeats: u32 },
    /// Restores a guest from an image that lacks a page.
    Control(Restored),
}

/// A guest's memory that a mechanism restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub mechanism: Restore,
    /// Pages that are copied at once at most.
    pub batch: u32,
    /// Pages of the image.
    pub pages: Pages,
}

impl Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mechanism = Method::from(self.mechanism);
        write!(f, "{mechanism} {} {}", self.batch, self.pages.get())
    }
}

impl Display for RestoreStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bill { subject, repeats } => write!(f, "bill {subject} {repeats}"),
            Self::Control(subject) => write!(f, "control {subject}"),
        }
    }
}

/// A step of `guests/runner`. Files are names in the guest's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerStep {
    /// The folder that the program runs in.
    Folder(String),
    /// The file of its environment.
    Environment(&'static str),
    /// Runs a command; the marks say what is counted of it.
    Run { marks: Marks, command: String },
    /// Runs a command and leaves what it has mapped at its end in [`MAPS`].
    Maps { command: String },
}

/// The marks of a program's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// None: it is not counted.
    None,
    /// Around the run, from before its fork to after its end.
    Around,
    /// The program's own.
    ItsOwn,
}

/// The output of the program that `guests/runner` ran last.
pub const OUTPUT: &str = "/.pagetoll/output";
/// The mappings that a [`RunnerStep::Maps`] leaves.
pub const MAPS: &str = "/.pagetoll-maps";

impl Display for RunnerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "folder {path}"),
            Self::Environment(file) => write!(f, "environment /{file}"),
            Self::Run { marks, command } => {
                let verb = match marks {
                    Marks::None => "run",
                    Marks::Around => "count",
                    Marks::ItsOwn => "marked",
                };
                write!(f, "{verb} /{command}")
            }
            Self::Maps { command } => write!(f, "maps /{command}"),
        }
    }
}

/// The order of a program: its steps, a line each.
pub fn order<S: Display>(steps: &[S]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use pagetoll_bill::{Backend, Mechanism, Route, System};

    use super::*;

    /// The verbs that a program's source compares a line, or its first word, with.
    fn known_to(sources: &[&str]) -> BTreeSet<String> {
        let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
        let text = |source| fs::read_to_string(guests.join(source)).unwrap();
        let source: String = sources.iter().map(text).collect();
        let compared = ["sscanf(line, \"", "strcmp(line, \"", "equal(words[0], \""];
        let after = |&pattern: &&str| -> Vec<String> {
            let verb = |rest: &str| rest.split([' ', '"']).next().unwrap().to_owned();
            source.split(pattern).skip(1).map(verb).collect()
        };
        let verbs: BTreeSet<_> = compared.iter().flat_map(after).collect();
        assert!(!verbs.is_empty(), "no steps in {sources:?}");
        verbs
    }

    fn verbs<S: Display>(steps: &[S]) -> BTreeSet<String> {
        let verb = |step: &S| step.to_string().split(' ').next().unwrap().to_owned();
        steps.iter().map(verb).collect()
    }

    fn init_and_pv32_steps() -> Vec<Step> {
        let method = Method::from(Unmap::SetPte);
        vec![
            Step::Pages(Pages(1)),
            Step::Clear { method, batch: 1 },
            Step::Set(method),
            Step::Repeat(Cell::new(Operation::Baseline, method)),
            Step::TraceBegin { buffer_pages: 1 },
            Step::TraceEnd,
        ]
    }

    fn init_steps() -> Vec<Step> {
        let (name, pages) = ("swap".to_owned(), 1);
        vec![
            Step::Module("m.ko".to_owned()),
            Step::Settle,
            Step::Steady,
            Step::Race {
                mechanism: Unmap::SetPte,
                batch: 1,
                dirtied: 2,
                limit_ms: 3,
            },
            Step::User(Operation::Fork),
            Step::Foreign {
                operation: Operation::MapForeign,
                batch: 1,
            },
            Step::Domain(1),
            Step::ForeignPrepare,
            Step::TranslatedDomain,
            Step::ForeignRelease,
            Step::Call(Operation::Getppid),
            Step::Conformance("cases"),
            Step::Check {
                name: name.clone(),
                pages,
            },
            Step::Catch { name, pages },
            Step::KernelLog,
            Step::Unplug {
                vendor: 0x1234,
                device: 0x11e8,
            },
            Step::Rescan,
            Step::Run {
                program: "p",
                order: "o",
            },
            Step::Try(Command::default()),
            Step::Publish("f".to_owned()),
            Step::Release,
        ]
    }

    #[test]
    fn init_and_the_32_bit_guest_know_these_verbs_and_no_others() {
        let both = init_and_pv32_steps();
        assert_eq!(known_to(&["pv32-probe/main.c"]), verbs(&both));
        let all = [both, init_steps()].concat();
        assert_eq!(known_to(&["init/init.c", "steps/line.c"]), verbs(&all));
    }

    #[test]
    fn a_session_knows_these_verbs_beside_inits_and_no_others() {
        let name = "global-pages".to_owned();
        let steps = [
            Step::TraceState,
            Step::TraceStop { mask: 1 },
            Step::Parameter("global-pages"),
            Step::SetParameter { name, value: 1 },
            Step::LockReset,
            Step::LockProfile("flush_lock"),
            Step::Contend { count: 1 },
        ];
        assert_eq!(known_to(&["session/xen_steps.c"]), verbs(&steps));
    }

    #[test]
    fn the_probes_of_pin_and_demand_know_these_verbs_and_no_others() {
        let interface = Interface::Type1;
        let (shape, pages) = (Folio::Pages4k, Pages(1));
        let pin = [
            PinStep::Device("0000:00:05.0"),
            PinStep::Bound("0000:00:05.0".to_owned()),
            PinStep::Bill {
                interface,
                shape,
                pages,
                repeats: 1,
            },
            PinStep::Trace {
                interface,
                shape,
                pages,
            },
            PinStep::Conformance("cases"),
            PinStep::Check {
                name: "unpinned".to_owned(),
                pages: 1,
            },
        ];
        assert_eq!(known_to(&["pin-probe/main.c"]), verbs(&pin));
        let demand = [
            DemandStep::Parts {
                batch: 1,
                repeats: 1,
            },
            DemandStep::Bill {
                mechanism: Demand::Uffd,
                batch: 1,
                pages,
                repeats: 1,
            },
            DemandStep::Check {
                name: "race".to_owned(),
                pages: 1,
            },
        ];
        assert_eq!(known_to(&["demand-probe/main.c"]), verbs(&demand));
        let subject = Tracked {
            mechanism: Dirty::Bitmap,
            folio: Folio::Pages4k,
            chunk: pages,
            pages,
        };
        let dirty = [
            DirtyStep::Bill {
                subject,
                repeats: 1,
            },
            DirtyStep::Loss { subject, rounds: 1 },
        ];
        assert_eq!(known_to(&["dirty-probe/main.c"]), verbs(&dirty));
        let subject = Discarded {
            call: Discard::MadvDontneed,
            backing: Backing::Anonymous,
            chunk: 1,
            pages,
        };
        let discard = [
            DiscardStep::Bill {
                subject,
                repeats: 1,
            },
            DiscardStep::Single(subject),
            DiscardStep::Misplace(subject),
            DiscardStep::MisplaceAndSpoil(subject),
            DiscardStep::Hold(subject),
            DiscardStep::Clear(pages),
        ];
        assert_eq!(known_to(&["discard-probe/main.c"]), verbs(&discard));
        let subject = Restored {
            mechanism: Restore::Uffd,
            batch: 1,
            pages,
        };
        let restore = [
            RestoreStep::Bill {
                subject,
                repeats: 1,
            },
            RestoreStep::Control(subject),
        ];
        assert_eq!(known_to(&["restore-probe/main.c"]), verbs(&restore));
    }

    #[test]
    fn the_runner_knows_these_verbs_and_no_others() {
        let command = || "c".to_owned();
        let run = |marks| RunnerStep::Run {
            marks,
            command: command(),
        };
        let steps = [
            RunnerStep::Folder("/".to_owned()),
            RunnerStep::Environment("e"),
            run(Marks::None),
            run(Marks::Around),
            run(Marks::ItsOwn),
            RunnerStep::Maps { command: command() },
        ];
        assert_eq!(known_to(&["runner/main.c"]), verbs(&steps));
    }

    #[test]
    fn the_runner_leaves_its_files_where_they_are_looked_for() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/runner/program.h");
        let source = fs::read_to_string(path).unwrap();
        for (name, path) in [("OUTPUT", OUTPUT), ("MAPS", MAPS)] {
            assert!(
                source.contains(&format!("#define {name} \"{path}\"")),
                "{name}"
            );
        }
    }

    /// A table in a guest's source: an array's initialiser, or a list that a macro goes through.
    fn table(source: &str, name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../guests/")
            .join(source);
        let text = fs::read_to_string(&path).unwrap();
        let named = |before: &str| before.ends_with(' ') || before.ends_with('\t');
        let mut found = text.match_indices(name).map(|(at, _)| text.split_at(at));
        let (_, table) = found
            .find(|(before, after)| named(before) && after[name.len()..].starts_with(['[', '(']))
            .unwrap_or_else(|| panic!("no table {name} in {source}"));
        table.split("\n\n").next().unwrap().to_owned()
    }

    fn assert_knows(source: &str, name: &str, route: Route, system: System) {
        let table = table(source, name);
        let run = |mechanism: &Mechanism| mechanism.exists_on(system);
        for mechanism in route.mechanisms_on(Backend::Lab).filter(run) {
            let is_known = table.contains(&format!("\"{mechanism}\""));
            assert!(is_known, "{name} in {source} lacks {mechanism} of {route}");
        }
    }

    #[test]
    fn the_guests_know_the_mechanisms_that_the_lab_runs() {
        let (init, dom0) = ("steps/probe_steps.c", System::XenPvDom0);
        let (list, each) = ("lib/xen_probe_abi.h", "XEN_PROBE_EACH_MECHANISM");
        assert_knows(list, each, Route::Unmap, dom0);
        assert_knows(init, "set_mechanisms", Route::Fault, dom0);
        assert_knows(init, "repeated", Route::Switch, dom0);
        assert_knows(init, "repeated", Route::Irq, dom0);
        let (pv32, dom0) = ("pv32-probe/mechanism.c", System::XenPv32Dom0);
        assert_knows(pv32, "clearings", Route::Unmap, dom0);
        assert_knows(pv32, "settings", Route::Fault, dom0);
        let (demand, kvm) = ("demand-probe/exercise.c", System::KvmGuest);
        assert_knows(demand, "mechanisms", Route::Demand, kvm);
        assert_knows("dirty-probe/log.c", "mechanisms", Route::Dirty, kvm);
        assert_knows("discard-probe/calls.c", "calls", Route::Discard, kvm);
        let restore = "restore-probe/mechanisms.c";
        assert_knows(restore, "mechanisms", Route::Restore, kvm);
    }

    #[test]
    fn arguments_follow_in_the_order_that_the_guest_reads() {
        let race = init_steps().remove(3);
        assert_eq!(
            order(&[race, Step::Settle]),
            "race set-pte 1 2 3\nsettle 60\n"
        );
    }
}

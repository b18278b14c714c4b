//! Reports of guests: the typed form of the result lines that `guests/init` writes.

#![expect(
    missing_docs,
    reason = "fields are named as in the lines that the guests' programs document"
)]

mod check;
mod restore;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

use pagetoll_bill::route::{self, RouteMechanism};
use pagetoll_bill::row::{Backing, Folio};
use pagetoll_bill::{Method, Operation, Route};
use pagetoll_xentrace::lock_profile::Spent;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::step::{Cell, Interface};

pub use check::{CheckRun, KernelLog};
pub use restore::{Restore, RestorePart, RestoreUnavailable};

/// One result line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Report {
    /// The guest is up.
    Hello(Hello),
    /// The kernel's work after boot is done, or would not end.
    Settled(Settled),
    /// A `clear` step.
    Clear(Clear),
    /// A `race` step.
    Race(Race),
    /// A `set` or `repeat` step.
    Repeat(Repeat),
    /// A `user` or `call` step.
    User(User),
    /// A `foreign` step.
    Foreign(Foreign),
    /// A `foreign-release` step.
    ForeignReleased(ForeignReleased),
    /// This Xen made no other domain.
    ForeignUnavailable(ForeignUnavailable),
    /// A `trace-state` step.
    Trace(TraceState),
    /// A `parameter` step.
    Parameter(Parameter),
    /// A `lock-profile` step.
    Lock(Lock),
    /// This Xen was built without such profiles.
    LockUnavailable,
    /// A `contend` step.
    Contended(Contended),
    /// A case of a `conformance` step.
    Case(CaseRun),
    /// A `check` step.
    Check(CheckRun),
    /// A `kernel-log` step.
    KernelLog(KernelLog),
    /// A `bill` step of demand-probe.
    Demand(Demand),
    /// Its `parts` step.
    DemandParts(DemandParts),
    /// A mechanism that this kernel does not have.
    DemandUnavailable(DemandUnavailable),
    /// A phase of a `bill` step of dirty-probe.
    DirtyPhase(DirtyPhase),
    /// Its `loss` step.
    DirtyLoss(DirtyLoss),
    /// A mechanism, or memory of a shape, that this guest does not have.
    DirtyUnavailable(DirtyUnavailable),
    /// A repeat of a `bill` step of discard-probe.
    Discard(Discard),
    /// Its `single` step.
    DiscardSingle(DiscardSingle),
    /// A `misplace` step.
    DiscardMisplaced(DiscardMisplaced),
    /// A `hold` step.
    DiscardHeld(DiscardHeld),
    /// A `clear` step.
    DiscardClearing(DiscardClearing),
    /// A backing that this guest does not have, or a call that memory does not take.
    DiscardUnavailable(DiscardUnavailable),
    /// A repeat of a `bill` step of restore-probe.
    Restore(Restore),
    /// Its `control` step.
    RestoreControl(Restore),
    /// A mechanism that this guest does not have.
    RestoreUnavailable(RestoreUnavailable),
    /// A case of kvm-cases.
    KvmCase(KvmCase),
    /// A case that it did not run.
    KvmCaseSkipped(KvmCaseSkipped),
    /// A `bill` step of pin-probe.
    Pin(Pin),
    /// A `trace` step of pin-probe.
    PinTraced(PinTraced),
    /// Memory of a shape that this guest cannot make.
    PinUnavailable(PinUnavailable),
    /// A case of pin-probe's `conformance` step.
    PinCase(PinCase),
    /// A run of a program by runner.
    Program(ProgramRun),
    /// A `try` step.
    Tried(Tried),
    Changed(Changed),
    /// Bulk data lies in the shared memory.
    Blob(Blob),
    /// A step failed and the guest gave up.
    Error(Failure),
    /// All steps are done.
    Done,
}

/// Prefix of a result's line; its checksum and its object follow.
const MARKER: &str = "@pagetoll ";

/// A line with the marker but not the right checksum: other output cut into it, or it is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

/// The object of a result's line; `None` of all other lines.
#[must_use]
pub fn object_in(line: &str) -> Option<Result<&str, Garbled>> {
    let (_, rest) = line.split_once(MARKER)?;
    let object = || {
        let (checksum, object) = rest.split_once(' ')?;
        let expected = u32::from_str_radix(checksum, 16).ok()?;
        (crc32fast::hash(object.as_bytes()) == expected).then_some(object)
    };
    Some(object().ok_or(Garbled))
}

/// Reads an object of [`object_in`]. Compiled here once: a derived reader of all reports is a quarter of a caller's code.
impl FromStr for Report {
    type Err = serde_json::Error;

    fn from_str(object: &str) -> serde_json::Result<Self> {
        serde_json::from_str(object)
    }
}

impl Blob {
    /// Checks that these bytes are what was announced.
    ///
    /// # Errors
    /// The two checksums.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let found = format!("{:08x}", crc32fast::hash(bytes));
        match found == self.crc32 {
            true => Ok(()),
            false => Err(format!(
                "{}: CRC-32 {found}, the guest said {}",
                self.name, self.crc32
            )),
        }
    }
}

impl Report {
    /// The race that this reports.
    #[must_use]
    pub fn race(&self) -> Option<&Race> {
        match self {
            Self::Race(race) => Some(race),
            _ => None,
        }
    }

    /// The bulk data that this announces.
    #[must_use]
    pub fn blob(&self) -> Option<&Blob> {
        match self {
            Self::Blob(blob) => Some(blob),
            _ => None,
        }
    }
}

/// The guest, and its system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// `uname -v`, which names Debian's version of the kernel.
    pub version: String,
    /// `uname -r`.
    pub release: String,
    /// Xen's version, or nothing without Xen.
    pub xen: String,
    /// vCPUs that are online.
    pub cpus: u32,
}

impl Hello {
    /// Debian's release says 6.1.0-56-amd64 of Linux 6.1.192; its banner has the version.
    pub fn linux_version(&self) -> String {
        let debian = self.version.split_once("Debian ").map(|(_, rest)| rest);
        let version = debian.unwrap_or(&self.release);
        let end = version.find(['-', ' ', '+', '~']).unwrap_or(version.len());
        version[..end].to_owned()
    }
}

/// The end of waiting for a quiet guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Settled {
    /// True where the guest became quiet.
    pub quiet: bool,
    /// Guest time that it took.
    pub milliseconds: u64,
}

/// Faults of entries: see `struct xen_probe_faults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Faults {
    pub lost_accessed: u64,
    pub lost_dirty: u64,
    pub wrong_frame: u64,
    pub wrong_flags: u64,
    pub not_none: u64,
    pub refused: u64,
}

/// Entries were cleared once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Clear {
    #[serde(rename = "mechanism", deserialize_with = "method_of_unmap")]
    pub method: Method,
    pub batch: u32,
    pub pages: u64,
    /// The id of its marks in the trace, or -1.
    pub mark: i64,
    pub instructions: u64,
    /// Entries with neither bit, A, D, both.
    pub classes: [u64; 4],
    pub faults: Faults,
}

/// Entries were cleared against a racing vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Race {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::Unmap,
    pub batch: u32,
    /// Pages that were written.
    pub dirtied: u64,
    /// Pages that were read or written.
    pub accessed: u64,
    pub faults: Faults,
}

/// The probe did something again and again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Repeat {
    pub operation: Operation,
    /// The probe's word for how it was done: [`Cell::mechanism`].
    pub mechanism: String,
    /// Repetitions.
    pub count: u64,
    /// The id of its marks in the trace, or -1.
    pub mark: i64,
    pub instructions: u64,
    /// Failures of each check, by its name.
    pub failed: BTreeMap<String, u64>,
}

impl Repeat {
    pub fn is_of(&self, cell: Cell) -> bool {
        self.operation == cell.operation && self.mechanism == cell.mechanism
    }
}

/// User space did something: with its memory, by system calls, or with another process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    pub operation: Operation,
    /// Pages, calls or switches.
    pub pages: u64,
    pub mark: i64,
    pub instructions: u64,
}

/// Another domain's pages were mapped or unmapped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Foreign {
    pub operation: Operation,
    pub batch: u32,
    pub pages: u64,
    pub mark: i64,
    pub instructions: u64,
    /// Pages that were read through their mappings to see whether they hold what was written there at first.
    pub checked: u64,
    /// Pages that held something else.
    pub wrong: u64,
}

/// The other domain was ended, and a domain of which a page was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ForeignReleased {
    /// Its pages, which were read before, when none was mapped any more.
    pub checked: u64,
    /// Pages that held something else than what was written there at first.
    pub wrong: u64,
    /// 1 where Xen still had it: something of it was still mapped.
    pub left: u64,
    /// Pages that Xen had left of the domain that has to be left.
    pub control_left: u64,
}

/// Why there was no other domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ForeignUnavailable {
    /// Xen's answer to `XEN_DOMCTL_createdomain`.
    pub errno: i32,
}

/// The state of Xen's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TraceState {
    /// Its choice of events.
    pub mask: u32,
    /// 1 where it is running.
    pub busy: u32,
}

/// A parameter of Xen that can be set while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: String,
    /// 0 or 1.
    pub value: u8,
}

/// The profile of a global lock.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Lock {
    pub name: String,
    /// Holding it, in nanoseconds.
    #[serde(with = "LockTime")]
    pub lock: Spent,
    /// Waiting for it.
    #[serde(with = "LockTime")]
    pub block: Spent,
}

/// [`Spent`] as the guest reports it.
#[derive(Deserialize)]
#[serde(remote = "Spent")]
struct LockTime {
    count: u64,
    time: u64,
}

/// CPUs flushed each other's TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Contended {
    pub cpus: u32,
    /// Flushes of all CPUs together.
    pub count: u64,
    /// The sum of what each CPU took for its own.
    pub instructions: u64,
}

/// A conformance case was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CaseRun {
    /// Its number in the order.
    pub index: usize,
    /// Pages that could not be had back.
    pub unclean: u32,
    /// Places of the frames: see `enum xen_probe_frame`.
    pub frames: Vec<u64>,
    /// Return value, done counter and value found, for each step.
    pub answers: Vec<(i64, u32, u64)>,
}

/// Memory was mapped for a device and unmapped, several times.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pin {
    pub interface: Interface,
    pub shape: Folio,
    pub pages: u64,
    /// Calls to map all of it.
    pub ioctls: u64,
    /// Instructions of the first time.
    pub first_map: u64,
    pub first_unmap: u64,
    /// Instructions of each time, after the first two.
    pub map: Vec<u64>,
    pub unmap: Vec<u64>,
    /// Physically contiguous runs, folios, pages of the largest folio.
    pub runs: u64,
    pub folios: u64,
    pub largest: u64,
    /// Pages that were locked while it was mapped, and after it was unmapped.
    pub locked: u64,
    pub left: u64,
    /// Pages that the device was asked to read, and those where it found something else.
    pub tried: u64,
    pub misplaced: u64,
}

impl Pin {
    /// This report with costs in a unit of which a tick of the counter is so much.
    #[must_use]
    pub fn in_units(mut self, tick: f64) -> Self {
        let costs = self.map.iter_mut().chain(&mut self.unmap);
        for cost in costs.chain([&mut self.first_map, &mut self.first_unmap]) {
            *cost = scaled(*cost, tick);
        }
        self
    }
}

/// A cost in ticks, in another unit. Rounded: it is one of thousands of pages.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts stay below 2^53 and no cost is negative"
)]
#[must_use]
pub fn scaled(count: u64, tick: f64) -> u64 {
    (count as f64 * tick).round() as u64
}

/// Memory was mapped and unmapped under function_graph.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PinTraced {
    pub interface: Interface,
    pub shape: Folio,
    pub pages: u64,
    pub map: u64,
    pub unmap: u64,
}

/// Why there is no such memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PinUnavailable {
    pub interface: Interface,
    pub shape: Folio,
    pub reason: String,
}

/// A case of mapping memory was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PinCase {
    pub index: usize,
    /// errno, value and pages locked, for each step.
    pub answers: Vec<(i32, u64, u64)>,
}

/// A guest of the guest touched pages: see `struct counts` of demand-probe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Demand {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::lab::Demand,
    /// Pages that were populated at once.
    pub batch: u32,
    pub pages: u64,
    pub instructions: u64,
    /// Exits of the vCPU, for whatever reason.
    pub exits: u64,
    /// Calls of KVM_RUN.
    pub entries: u64,
    /// KVM_EXIT_MEMORY_FAULT.
    pub missing: u64,
    /// Messages of the userfaultfd.
    pub faults: u64,
    /// Instructions of all UFFDIO_COPY of the vCPU's thread.
    pub copying: u64,
    /// Instructions of all KVM_PRE_FAULT_MEMORY.
    pub prefaulting: u64,
    /// Switches between threads.
    pub switches: u64,
    /// Exits that named another page than the missing one.
    pub misnamed: u64,
    /// Pages that held, or gave the guest, something else.
    pub wrong: u64,
}

impl Demand {
    /// Calls of KVM_PRE_FAULT_MEMORY: one after each exit, by the mechanism that makes them.
    pub fn prefaults(&self) -> u64 {
        match self.mechanism {
            route::lab::Demand::ExitPrefault => self.missing,
            _ => 0,
        }
    }
}

/// A phase of finding which pages a guest of the guest writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DirtyPhase {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::lab::Dirty,
    pub folio: Folio,
    pub pages: u64,
    pub phase: Operation,
    pub instructions: u64,
    /// Exits of the vCPU, for whatever reason.
    pub exits: u64,
    /// Messages of the userfaultfd.
    pub faults: u64,
    /// Switches between threads.
    pub switches: u64,
    /// Pages of the last harvest.
    pub reported: u64,
}

/// Pages that differed from their copies at a harvest, and those of them that it did not report.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DirtyLoss {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::lab::Dirty,
    pub folio: Folio,
    pub tried: u64,
    pub lost: u64,
    /// Where pages are cleared after they were copied.
    pub control_tried: u64,
    pub control_lost: u64,
}

/// A mechanism, or memory of a shape, that this guest does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DirtyUnavailable {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::lab::Dirty,
    pub folio: Folio,
    /// The name of what is lacking.
    pub lacks: String,
}

/// Instructions of a part of a run, and exits of its vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counted {
    pub instructions: u64,
    pub exits: u64,
}

/// Memory that a VMM in the guest holds for its own guest, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Held {
    /// Anonymous pages, and the pages of the guest's own file.
    pub own: u64,
    /// Bytes of that which MADV_FREE has marked.
    pub lazy: u64,
    pub rss: u64,
    /// Page cache of the file behind a private mapping.
    pub page_cache: u64,
    /// Huge pages that wait to be split, since the boot.
    pub deferred_splits: u64,
}

/// A run in which every second chunk of a guest's memory was discarded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Discard {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::Discard,
    pub backing: Backing,
    /// Pages of a chunk.
    pub batch: u32,
    /// Pages that were discarded, and as many beside.
    pub pages: u64,
    pub call: Counted,
    /// Reads of the pages beside, before the calls and after them.
    pub present: Counted,
    pub beside: Counted,
    /// Writes to the pages that were discarded.
    pub again: Counted,
    pub before: Held,
    pub after: Held,
    /// Sums of the first words of both kinds of pages: [`Contents`].
    pub sum_beside: u32,
    pub sum_again: u32,
}

/// A single call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DiscardSingle {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::Discard,
    pub backing: Backing,
    pub batch: u32,
    /// Pages that it took from KVM's tables; absent where KVM does not count them.
    #[serde(default)]
    pub taken: Option<u64>,
    /// Exits of the guest when it touched all other pages.
    pub exits_beside: u64,
}

/// A run whose discards were one chunk beside their places, by a call that frees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DiscardMisplaced {
    pub backing: Backing,
    pub batch: u32,
    pub pages: u64,
    /// Words of no content were written to the places.
    pub is_spoilt: bool,
    pub sum_beside: u32,
    pub sum_again: u32,
}

/// Bytes that are held before a call that discards nothing, after it, and after a call that discards all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DiscardHeld {
    pub backing: Backing,
    pub own: [u64; 3],
}

/// Instructions in which pages are cleared as the kernel clears them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DiscardClearing {
    pub pages: u64,
    pub instructions: u64,
}

/// A backing that this guest does not have, or a call that memory of it does not take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DiscardUnavailable {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::Discard,
    pub backing: Backing,
    pub batch: u32,
    /// The name of what is lacking.
    #[serde(default)]
    pub lacks: String,
    /// The call, and the name of its errno.
    #[serde(default)]
    pub call: String,
    #[serde(default)]
    pub errno: Option<String>,
}

/// Pages by the first words that the guest of discard-probe found in them: `WORD_OLD` and `WORD_FILE` of its memory.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    pub zeroes: u64,
    pub old: u64,
    pub file: u64,
}

impl Contents {
    /// The contents of so many pages, fewer than 65536, by the sum of their words; `None` where a page has another word.
    #[must_use]
    pub fn new(sum: u32, pages: u64) -> Option<Self> {
        let (old, file) = (u64::from(sum & 0xffff), u64::from(sum >> 16));
        Some(Self {
            zeroes: pages.checked_sub(old + file)?,
            old,
            file,
        })
    }
}

/// Costs of the parts of paging by themselves, in instructions for `count` of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DemandParts {
    /// Pages that were copied at once.
    pub batch: u32,
    pub count: u64,
    /// Exits by an instruction for a port, which KVM answers.
    pub answered: u64,
    /// Exits that user space answers.
    pub out: u64,
    /// `count` pages populated by `UFFDIO_COPY` with `DONTWAKE`.
    pub copy: u64,
    /// Two writes and two reads of eventfds.
    pub calls: u64,
    /// Two threads that sleep and wake each other.
    pub wakes: u64,
}

/// A case of memslots and userfaultfds was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct KvmCase {
    pub index: usize,
    /// For each step what came of it, and the faults in the userfaultfds' queues after it: those that have not been
    /// read, and all.
    pub answers: Vec<(KvmAnswer, usize, usize)>,
}

/// The answer to a step: see `enum answer_kind` of kvm-cases.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmAnswer {
    Done,
    Refused(i32),
    Registered(u64),
    Filled(i32, i64),
    Untouched(i32),
    Polled(u16),
    Received(u64, u64),
    Word(u64),
    Sleeps,
    Idle,
    MmioRead(u64, usize),
    MmioWrite(u64, u64),
    RunFailed,
    MemoryFault(u64, u64, u64),
    Other(i32, u32),
    /// For each page its first word, the word that fills the rest, and whether it is protected.
    Shown(Vec<(Option<u64>, Option<u64>, bool)>),
    Dirty(Vec<u64>),
}

/// A case of memslots and userfaultfds needs what the kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct KvmCaseSkipped {
    pub index: usize,
    /// Its name in scripts.
    pub need: String,
}

/// A mechanism that needs a capability that the kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DemandUnavailable {
    #[serde(deserialize_with = "mechanism")]
    pub mechanism: route::lab::Demand,
    /// Its number.
    pub capability: u32,
}

/// A program of the user's own came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProgramRun {
    /// Wait status: wait(2).
    pub status: i32,
    /// By the clock, from before its fork to after its end: a program that sleeps makes it jump.
    pub instructions: u64,
    pub killed_for_memory: bool,
    /// It wrote all that there was room for.
    pub output_full: bool,
    /// The end of what it wrote, where its status is not 0.
    pub output: String,
}

/// A command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Tried {
    /// Its exit code; 128 and more is a signal.
    pub code: i32,
}

/// A setting of the machine that is not as it was noted before.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Changed {
    /// Its path and value: as noted, or as it is.
    pub setting: String,
}

/// Data in the shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Blob {
    pub name: String,
    pub bytes: u64,
    /// CRC-32 in hexadecimal.
    pub crc32: String,
}

/// Why the guest gave up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Failure {
    pub what: String,
    pub errno: i32,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Guests run Linux, and Xen numbers its errors alike.
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {error}", self.what)
    }
}

/// A mechanism by its name.
fn mechanism<'de, M: RouteMechanism, D: Deserializer<'de>>(from: D) -> Result<M, D::Error> {
    let name = String::deserialize(from)?;
    let mut all = M::ALL.iter().copied();
    all.find(|mechanism| mechanism.properties().name == name)
        .ok_or_else(|| D::Error::custom(format!("unknown mechanism {name}")))
}

/// A mechanism of route `unmap`, or a baseline of it.
fn method_of_unmap<'de, D: Deserializer<'de>>(from: D) -> Result<Method, D::Error> {
    let name = String::deserialize(from)?;
    Method::named(Route::Unmap, &name).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: &str, release: &str) -> Hello {
        Hello {
            version: version.into(),
            release: release.into(),
            xen: "4.17.7".into(),
            cpus: 1,
        }
    }

    #[test]
    fn debians_version_is_found_and_others_have_their_release() {
        let debian = hello(
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)",
            "6.1.0-56-amd64",
        );
        assert_eq!(debian.linux_version(), "6.1.192");
        assert_eq!(hello("#3 SMP", "6.19.0-rc2+").linux_version(), "6.19.0");
    }

    #[test]
    fn the_lines_of_a_real_guest_are_understood() {
        let clear = r#"{"kind":"clear","mechanism":"emulate","batch":1,"pages":16384,"mark":-1,
            "instructions":30471214,"classes":[4096,4096,4096,4096],"faults":{"lost_accessed":0,
            "lost_dirty":0,"wrong_frame":0,"wrong_flags":0,"not_none":0,"refused":0}}"#;
        let report = |object: &str| object.parse::<Report>();
        let Report::Clear(clear) = report(clear).unwrap() else {
            panic!("not a clear");
        };
        assert_eq!((clear.mark, clear.instructions), (-1, 30_471_214));
        assert_eq!(report(r#"{"kind":"done"}"#).unwrap(), Report::Done);
        assert!(report(r#"{"kind":"other"}"#).is_err());
        let error = r#"{"kind":"error","what":"swapon","errno":22}"#;
        let Report::Error(failure) = report(error).unwrap() else {
            panic!("not an error");
        };
        assert_eq!(
            failure.to_string(),
            "swapon: Invalid argument (os error 22)"
        );
    }
}

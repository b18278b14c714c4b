//! What a guest reports: the typed form of the result lines that `guests/init` writes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use pagetoll_bill::route::{self, RouteMechanism};
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Method, Operation, Route};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::guest::step::{Cell, Interface};

/// One result line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Report {
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
    /// A `bill` step of pin-probe.
    Pin(Pin),
    /// A `trace` step of pin-probe.
    PinTraced(PinTraced),
    /// Memory of a shape that this guest cannot make.
    PinUnavailable(PinUnavailable),
    /// A case of pin-probe's `conformance` step.
    PinCase(PinCase),
    /// Bulk data lies in the shared memory.
    Blob(Blob),
    /// A step failed and the guest gave up.
    Error(Failure),
    /// All steps are done.
    Done,
}

/// Who is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Hello {
    /// `uname -v`, which names Debian's version of the kernel.
    pub(crate) version: String,
    /// `uname -r`.
    pub(crate) release: String,
    /// Xen's version, or nothing without Xen.
    pub(crate) xen: String,
    /// vCPUs that are online.
    pub(crate) cpus: u32,
}

impl Hello {
    /// Debian's release says 6.1.0-56-amd64 of Linux 6.1.192; its banner has the version.
    pub(crate) fn linux_version(&self) -> String {
        let debian = self.version.split_once("Debian ").map(|(_, rest)| rest);
        let version = debian.unwrap_or(&self.release);
        let end = version.find(['-', ' ', '+', '~']).unwrap_or(version.len());
        version[..end].to_owned()
    }
}

/// How the waiting for a quiet guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Settled {
    /// Whether the guest became quiet.
    pub(crate) quiet: bool,
    /// Guest time that it took.
    pub(crate) milliseconds: u64,
}

/// What was wrong with entries: see `struct xen_probe_faults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Faults {
    pub(crate) lost_accessed: u64,
    pub(crate) lost_dirty: u64,
    pub(crate) wrong_frame: u64,
    pub(crate) wrong_flags: u64,
    pub(crate) not_none: u64,
    pub(crate) refused: u64,
}

/// Entries were cleared once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Clear {
    #[serde(rename = "mechanism", deserialize_with = "method_of_unmap")]
    pub(crate) method: Method,
    pub(crate) batch: u32,
    pub(crate) pages: u64,
    /// The id of its marks in the trace, or -1.
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
    /// Entries with neither bit, A, D, both.
    pub(crate) classes: [u64; 4],
    pub(crate) faults: Faults,
}

/// Entries were cleared against a racing vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Race {
    #[serde(deserialize_with = "mechanism")]
    pub(crate) mechanism: route::Unmap,
    pub(crate) batch: u32,
    /// Pages that were written.
    pub(crate) dirtied: u64,
    /// Pages that were read or written.
    pub(crate) accessed: u64,
    pub(crate) faults: Faults,
}

/// The probe did something again and again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Repeat {
    pub(crate) operation: Operation,
    /// The probe's word for how it was done: [`Cell::mechanism`].
    pub(crate) mechanism: String,
    /// How often.
    pub(crate) count: u64,
    /// The id of its marks in the trace, or -1.
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
    /// How often each check failed, by its name.
    pub(crate) failed: BTreeMap<String, u64>,
}

impl Repeat {
    pub(crate) fn is_of(&self, cell: Cell) -> bool {
        self.operation == cell.operation && self.mechanism == cell.mechanism
    }
}

/// User space did something: with its memory, by system calls, or with another process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct User {
    pub(crate) operation: Operation,
    /// Pages, calls or switches.
    pub(crate) pages: u64,
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
}

/// Another domain's pages were mapped or unmapped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Foreign {
    pub(crate) operation: Operation,
    pub(crate) batch: u32,
    pub(crate) pages: u64,
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
    /// Pages that then held something else than was written there before.
    pub(crate) wrong: u64,
}

/// The other domain was ended, and a domain of which a page was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ForeignReleased {
    /// 1 where Xen still had it: something of it was still mapped.
    pub(crate) left: u64,
    /// The same of the domain that has to be left.
    pub(crate) control_left: u64,
}

/// Why there was no other domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ForeignUnavailable {
    /// What Xen said to `XEN_DOMCTL_createdomain`.
    pub(crate) errno: i32,
}

/// A conformance case was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct CaseRun {
    /// Its number in the order.
    pub(crate) index: usize,
    /// Pages that could not be had back.
    pub(crate) unclean: u32,
    /// Where the frames lay: see `enum xen_probe_frame`.
    pub(crate) frames: Vec<u64>,
    /// Return value, done counter and value found, for each step.
    pub(crate) answers: Vec<(i64, u32, u64)>,
}

/// A check was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct CheckRun {
    pub(crate) name: String,
    pub(crate) tried: u64,
    pub(crate) failed: u64,
}

/// Lines of the kernel's log that no healthy kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct KernelLog {
    pub(crate) warnings: u64,
    /// The first of them.
    pub(crate) first: String,
}

/// Memory was mapped for a device and unmapped, several times.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Pin {
    pub(crate) interface: Interface,
    pub(crate) shape: Folio,
    pub(crate) pages: u64,
    /// Calls to map all of it.
    pub(crate) ioctls: u64,
    /// Instructions of the first time.
    pub(crate) first_map: u64,
    /// Instructions of each time, after the first two.
    pub(crate) map: Vec<u64>,
    pub(crate) unmap: Vec<u64>,
    /// Physically contiguous runs, folios, pages of the largest folio.
    pub(crate) runs: u64,
    pub(crate) folios: u64,
    pub(crate) largest: u64,
    /// Pages that were locked while it was mapped, and after it was unmapped.
    pub(crate) locked: u64,
    pub(crate) left: u64,
    /// Pages that the device was asked to read, and those where it found something else.
    pub(crate) tried: u64,
    pub(crate) misplaced: u64,
}

/// Memory was mapped and unmapped under function_graph.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PinTraced {
    pub(crate) interface: Interface,
    pub(crate) shape: Folio,
    pub(crate) pages: u64,
    pub(crate) map: u64,
    pub(crate) unmap: u64,
}

/// Why there is no such memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PinUnavailable {
    pub(crate) interface: Interface,
    pub(crate) shape: Folio,
    pub(crate) reason: String,
}

/// A case of mapping memory was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PinCase {
    pub(crate) index: usize,
    /// errno, value and pages locked, for each step.
    pub(crate) answers: Vec<(i32, u64, u64)>,
}

/// A guest of the guest touched pages: see `struct counts` of demand-probe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Demand {
    #[serde(deserialize_with = "mechanism")]
    pub(crate) mechanism: route::Demand,
    /// Pages that were populated at once.
    pub(crate) batch: u32,
    pub(crate) pages: u64,
    pub(crate) instructions: u64,
    /// Of the vCPU, for whatever reason.
    pub(crate) exits: u64,
    /// Calls of KVM_RUN.
    pub(crate) entries: u64,
    /// KVM_EXIT_MEMORY_FAULT.
    pub(crate) missing: u64,
    /// Messages of the userfaultfd.
    pub(crate) faults: u64,
    /// Instructions of all UFFDIO_COPY of the vCPU's thread.
    pub(crate) copying: u64,
    /// Instructions of all KVM_PRE_FAULT_MEMORY.
    pub(crate) prefaulting: u64,
    /// Switches between threads.
    pub(crate) switches: u64,
    /// Exits that named another page than the missing one.
    pub(crate) misnamed: u64,
    /// Pages that held, or gave the guest, something else.
    pub(crate) wrong: u64,
}

impl Demand {
    /// Calls of KVM_PRE_FAULT_MEMORY: one after each exit, by the mechanism that makes them.
    pub(crate) fn prefaults(&self) -> u64 {
        match self.mechanism {
            route::Demand::ExitPrefault => self.missing,
            _ => 0,
        }
    }
}

/// What parts of paging cost by themselves, in instructions for `count` of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct DemandParts {
    /// Pages that were copied at once.
    pub(crate) batch: u32,
    pub(crate) count: u64,
    /// Exits by an instruction for a port, which KVM answers.
    pub(crate) answered: u64,
    /// Exits that user space answers.
    pub(crate) out: u64,
    /// `count` pages populated by `UFFDIO_COPY` with `DONTWAKE`.
    pub(crate) copy: u64,
    /// Two writes and two reads of eventfds.
    pub(crate) calls: u64,
    /// The same between two threads that sleep and wake each other.
    pub(crate) wakes: u64,
}

/// A mechanism that needs a capability that the kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct DemandUnavailable {
    #[serde(deserialize_with = "mechanism")]
    pub(crate) mechanism: route::Demand,
    /// Its number.
    pub(crate) capability: u32,
}

/// What lies in the shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Blob {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// CRC-32 in hexadecimal.
    pub(crate) crc32: String,
}

/// Why the guest gave up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) errno: i32,
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
        let Report::Clear(clear) = serde_json::from_str(clear).unwrap() else {
            panic!("not a clear");
        };
        assert_eq!((clear.mark, clear.instructions), (-1, 30_471_214));
        assert_eq!(
            serde_json::from_str::<Report>(r#"{"kind":"done"}"#).unwrap(),
            Report::Done
        );
        assert!(serde_json::from_str::<Report>(r#"{"kind":"other"}"#).is_err());
        let error = r#"{"kind":"error","what":"swapon","errno":22}"#;
        let Report::Error(failure) = serde_json::from_str(error).unwrap() else {
            panic!("not an error");
        };
        assert_eq!(
            failure.to_string(),
            "swapon: Invalid argument (os error 22)"
        );
    }
}

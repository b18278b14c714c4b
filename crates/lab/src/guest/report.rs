//! What a guest reports: the typed form of the result lines that `guests/init` writes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::Deserialize;

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
    pub(crate) mechanism: String,
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
    pub(crate) mechanism: String,
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
    pub(crate) operation: String,
    pub(crate) mechanism: String,
    /// How often.
    pub(crate) count: u64,
    /// The id of its marks in the trace, or -1.
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
    /// How often each check failed, by its name.
    pub(crate) failed: BTreeMap<String, u64>,
}

/// User space did something: with its memory, by system calls, or with another process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct User {
    pub(crate) operation: String,
    /// Pages, calls or switches.
    pub(crate) pages: u64,
    pub(crate) mark: i64,
    pub(crate) instructions: u64,
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
    pub(crate) interface: String,
    pub(crate) shape: String,
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
    pub(crate) interface: String,
    pub(crate) shape: String,
    pub(crate) pages: u64,
    pub(crate) map: u64,
    pub(crate) unmap: u64,
}

/// Why there is no such memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PinUnavailable {
    pub(crate) interface: String,
    pub(crate) shape: String,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Demand {
    pub(crate) mechanism: String,
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
    /// Switches between threads.
    pub(crate) switches: u64,
    /// Exits that named another page than the missing one.
    pub(crate) misnamed: u64,
    /// Pages that held, or gave the guest, something else.
    pub(crate) wrong: u64,
}

/// What parts of paging cost by themselves, in instructions for `count` of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct DemandParts {
    pub(crate) count: u64,
    /// Exits that KVM answers.
    pub(crate) cpuid: u64,
    /// Exits that user space answers.
    pub(crate) out: u64,
    /// UFFDIO_COPY that wakes nobody.
    pub(crate) copy: u64,
    /// Two writes and two reads of eventfds.
    pub(crate) calls: u64,
    /// The same between two threads that sleep and wake each other.
    pub(crate) wakes: u64,
}

/// A mechanism that needs a capability that the kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct DemandUnavailable {
    pub(crate) mechanism: String,
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

#[cfg(test)]
mod tests {
    use super::*;

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

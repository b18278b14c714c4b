//! Counts of faults by cause, vCPU and range.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Name, Task};
use pagetoll_observation::{Capture, Group, Item, Observation, Party, Recorded};
use serde::Serialize;

use super::follower::ThreadKey;
use super::machines::VmId;
use super::slots::Agreement;
use super::survey::{Kinds, MOST_THREADS, Process};
use super::thread::{Discard, Taken};
use super::{Cause, pages};

/// Ranges in a report, at most.
const MOST_RANGES: usize = 1000;
const CAUSES: usize = Cause::ALL.len();
/// Frames of a range.
const BLOCK: u64 = 512;

/// Join of addresses in the VMM and frames of its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The user gave the memory slots.
    Given,
    /// They were inferred by votes.
    Inferred(Agreement),
    /// No addresses are needed: `kvm_tdp_mmu_spte_changed` has frames.
    ByFrame,
    /// It is not known: what was taken away is unexplained.
    Unknown,
}

/// Time that a vCPU was stopped for faults, from its exit to its next entry, with those of tries that KVM gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// Stops, with all tries of a fault as one; of several faults in one, the first is its cause.
    pub stops: u64,
    /// Nanoseconds of all.
    pub nanos: u64,
    /// Nanoseconds of the longest.
    pub longest: u64,
}

impl Stall {
    const fn add(&mut self, nanos: u64) {
        self.stops += 1;
        self.nanos = self.nanos.saturating_add(nanos);
        if nanos > self.longest {
            self.longest = nanos;
        }
    }
}

/// Faults of a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseRow {
    /// The cause.
    pub cause: Cause,
    /// Faults.
    pub faults: u64,
    /// Different pages that faulted, where each is followed: those of a huge page are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Share of all faults.
    pub share: f64,
    /// Stops for it, where exits and entries are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

/// Faults of a vCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VcpuRow {
    /// Name and number of its thread.
    pub thread: String,
    /// Faults.
    pub faults: u64,
    /// Faults by cause.
    pub causes: BTreeMap<Cause, u64>,
    /// Stops, where exits and entries are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

/// Faults of a range of guest memory: ranges of 2 MiB with the same most frequent cause are one where they meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RangeRow {
    /// The VMM, where the capture names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Number of the VM in its process, from 1 in the order of creation; absent where VMs cannot be distinguished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// First guest physical address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Faults.
    pub faults: u64,
    /// The most frequent cause.
    pub cause: Cause,
    /// Faults by cause.
    pub causes: BTreeMap<Cause, u64>,
}

/// Calls that discarded memory, of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Before {
    /// Such as `munmap`.
    pub call: &'static str,
    /// Calls.
    pub calls: u64,
    /// Bytes of the smallest.
    pub least: u64,
    /// Bytes of the largest.
    pub most: u64,
}

/// Causes of the faults in a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// The file, and what it lacks.
    #[serde(flatten)]
    pub capture: Capture,
    /// Faults.
    pub faults: u64,
    /// Different pages that faulted, where each is followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Nanoseconds from the first record to the last, where records have times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanos: Option<u64>,
    /// Entries that KVM made ahead, without a fault.
    pub ahead: u64,
    /// `kvm_page_fault`s that made no entry: MMIO, emulation, or another vCPU was first.
    pub without_entry: u64,
    /// Way in which addresses were joined with frames; the worst of all VMs.
    pub memory: Memory,
    /// By cause, the most frequent first.
    pub causes: Vec<CauseRow>,
    /// By vCPU, the one with most faults first.
    pub vcpus: Vec<VcpuRow>,
    /// By range, the one with most faults first.
    pub ranges: Vec<RangeRow>,
    /// Ranges that are left out.
    #[serde(skip_serializing_if = "is_none")]
    pub other_ranges: usize,
    /// Calls that discarded memory.
    pub discards: Vec<Before>,
    /// Take-downs by discards that were wider than what their call was about.
    pub wide_discards: u64,
    /// Notes on what the capture lacks, and how that was taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Causes {
    /// A capture without a fault.
    pub(super) const fn empty(capture: Capture, memory: Memory) -> Self {
        Self {
            capture,
            faults: 0,
            pages: None,
            nanos: None,
            ahead: 0,
            without_entry: 0,
            memory,
            causes: Vec::new(),
            vcpus: Vec::new(),
            ranges: Vec::new(),
            other_ranges: 0,
            discards: Vec::new(),
            wide_discards: 0,
            notes: Vec::new(),
        }
    }

    /// Counts by cause, as rules ask for them.
    #[must_use]
    pub fn observation(&self) -> Observation {
        let rows = self.causes.iter();
        let items = rows.map(|row| Item::counted(Group::Causes, row.cause.title(), row.faults));
        let mut observation = Observation {
            capture: self.capture.clone(),
            parties: vec![Party::new("guest".to_owned(), None, items.collect())],
        };
        observation.capture.recorded = Recorded::groups([Group::Causes]);
        observation
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_none(count: &usize) -> bool {
    *count == 0
}

type ByCause = [u32; CAUSES];

#[derive(Default)]
struct Vcpu {
    faults: u64,
    causes: [u64; CAUSES],
    stall: Stall,
}

/// Growing counts.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) page_faults: u64,
    pub(super) ahead: u64,
    pub(super) spurious: u64,
    span: Option<(u64, u64)>,
    faults: [u64; CAUSES],
    stalls: [Stall; CAUSES],
    /// Causes of each page that faulted, a bit each.
    pages: BTreeMap<VmId, BTreeMap<u64, u16>>,
    blocks: BTreeMap<(VmId, u64), ByCause>,
    vcpus: BTreeMap<ThreadKey, Vcpu>,
    discards: BTreeMap<Discard, (u64, u64, u64)>,
    wide: u64,
}

const fn index(cause: Cause) -> usize {
    cause as usize
}

fn add<T: Copy>(counts: &mut [T], cause: Cause, add: impl FnOnce(&mut T)) {
    if let Some(count) = counts.get_mut(index(cause)) {
        add(count);
    }
}

impl Counts {
    pub(super) fn see(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    pub(super) fn fault(&mut self, task: &Task, vm: VmId, gfn: u64, cause: Cause) {
        add(&mut self.faults, cause, |count| *count += 1);
        let pages = self.pages.entry(vm).or_default();
        *pages.entry(gfn).or_default() |= 1 << index(cause);
        let block = self.blocks.entry((vm, gfn / BLOCK)).or_default();
        add(block, cause, |count| *count = count.saturating_add(1));
        if let Some(vcpu) = self.vcpu(task) {
            vcpu.faults += 1;
            add(&mut vcpu.causes, cause, |count| *count += 1);
        }
    }

    fn vcpu(&mut self, task: &Task) -> Option<&mut Vcpu> {
        let key = (Name::clone(&task.comm), task.tid);
        let is_full = self.vcpus.len() >= MOST_THREADS && !self.vcpus.contains_key(&key);
        (!is_full).then(|| self.vcpus.entry(key).or_default())
    }

    pub(super) fn stall(&mut self, task: &Task, cause: Cause, nanos: u64) {
        add(&mut self.stalls, cause, |stall| stall.add(nanos));
        if let Some(vcpu) = self.vcpu(task) {
            vcpu.stall.add(nanos);
        }
    }

    pub(super) fn discard(&mut self, kind: Discard, bytes: u64) {
        let (calls, least, most) = self.discards.entry(kind).or_insert((0, u64::MAX, 0));
        *calls += 1;
        *least = bytes.min(*least);
        *most = bytes.max(*most);
    }

    pub(super) fn taken(&mut self, taken: &Taken) {
        let is_wide = taken.taker == pages::Taker::Discard && !taken.is_own();
        self.wide += u64::from(is_wide);
    }

    pub(super) fn causes(
        self,
        capture: Capture,
        kinds: Kinds,
        memory: &BTreeMap<VmId, Memory>,
        has_lost: bool,
        merged: &BTreeMap<Process, u32>,
    ) -> Causes {
        let faults: u64 = self.faults.iter().sum();
        let stopped = |stall: Stall| kinds.exits.then_some(stall);
        let distinct = |cause: Option<Cause>| {
            let pages = self.pages.values().flat_map(BTreeMap::values);
            let of = |mask: &&u16| cause.is_none_or(|cause| **mask >> index(cause) & 1 == 1);
            u64::try_from(pages.filter(of).count()).unwrap_or(u64::MAX)
        };
        let rows = Cause::ALL.into_iter().zip(self.faults).zip(self.stalls);
        let rows = rows.filter(|((_, count), _)| *count > 0);
        let mut causes: Vec<_> = rows
            .map(|((cause, count), stall)| CauseRow {
                cause,
                faults: count,
                pages: Some(distinct(Some(cause))),
                share: pagetoll_observation::per(count, faults),
                stall: stopped(stall),
            })
            .collect();
        causes.sort_by_key(|row| std::cmp::Reverse(row.faults));
        let pages = Some(distinct(None));
        let memory = worst(memory);
        let (ranges, other_ranges) = ranges(self.blocks);
        let vcpus = self.vcpus.into_iter().map(|((comm, tid), vcpu)| VcpuRow {
            thread: match tid {
                Some(tid) => format!("{comm} {tid}"),
                None => format!("{comm} ?"),
            },
            faults: vcpu.faults,
            causes: by_cause(vcpu.causes),
            stall: stopped(vcpu.stall),
        });
        let mut vcpus: Vec<_> = vcpus.filter(|row| row.faults > 0).collect();
        vcpus.sort_by_key(|row| std::cmp::Reverse(row.faults));
        let discards = self.discards.into_iter();
        let discards = discards.map(|(kind, (calls, least, most))| Before {
            call: kind.name(),
            calls,
            least,
            most,
        });
        Causes {
            capture,
            faults,
            pages,
            nanos: self.span.map(|(first, last)| last - first),
            ahead: self.ahead,
            without_entry: match kinds.page_faults {
                true => self.page_faults.saturating_sub(faults),
                false => self.spurious,
            },
            memory,
            causes,
            vcpus,
            ranges,
            other_ranges,
            discards: discards.collect(),
            wide_discards: self.wide,
            notes: notes(kinds, memory, has_lost, merged),
        }
    }
}

fn by_cause(counts: [u64; CAUSES]) -> BTreeMap<Cause, u64> {
    let counts = Cause::ALL.into_iter().zip(counts);
    counts.filter(|(_, count)| *count > 0).collect()
}

/// The one that explains least.
fn worst(memory: &BTreeMap<VmId, Memory>) -> Memory {
    let worse = |memory: &&Memory| match memory {
        Memory::Given => 0,
        Memory::ByFrame => 1,
        Memory::Inferred(_) => 2,
        Memory::Unknown => 3,
    };
    let worst = memory.values().max_by_key(worse);
    worst.copied().unwrap_or(Memory::Unknown)
}

/// The rows with most faults, and the number of others.
#[derive(Default)]
struct Largest {
    rows: Vec<RangeRow>,
    others: usize,
}

impl Largest {
    fn push(&mut self, row: RangeRow) {
        self.rows.push(row);
        if self.rows.len() >= 4 * MOST_RANGES {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.rows.sort_by_key(|row| {
            (
                std::cmp::Reverse(row.faults),
                row.process,
                row.vm,
                row.start,
            )
        });
        self.others += self.rows.len().saturating_sub(MOST_RANGES);
        self.rows.truncate(MOST_RANGES);
    }
}

fn ranges(blocks: BTreeMap<(VmId, u64), ByCause>) -> (Vec<RangeRow>, usize) {
    let mut largest = Largest::default();
    let mut open: Option<RangeRow> = None;
    for ((vm, block), counts) in blocks {
        let row = range(vm, block, counts);
        match &mut open {
            Some(last) if last.meets(&row) => last.append(row),
            _ => open
                .replace(row)
                .into_iter()
                .for_each(|row| largest.push(row)),
        }
    }
    open.into_iter().for_each(|row| largest.push(row));
    largest.prune();
    (largest.rows, largest.others)
}

fn range(vm: VmId, block: u64, counts: ByCause) -> RangeRow {
    let causes = by_cause(counts.map(u64::from));
    let most = causes.iter().max_by_key(|(_, count)| **count);
    RangeRow {
        process: vm.process,
        vm: (vm.number > 0).then_some(vm.number),
        start: block.saturating_mul(BLOCK << 12),
        bytes: BLOCK << 12,
        faults: causes.values().sum(),
        cause: most.map_or(Cause::Unexplained, |(cause, _)| *cause),
        causes,
    }
}

impl RangeRow {
    /// The other follows, of the same VM and mostly for the same cause.
    fn meets(&self, other: &Self) -> bool {
        let end = self.start.saturating_add(self.bytes);
        (self.process, self.vm, self.cause, end)
            == (other.process, other.vm, other.cause, other.start)
    }

    fn append(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.faults += other.faults;
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
    }
}

fn notes(
    kinds: Kinds,
    memory: Memory,
    has_lost: bool,
    merged: &BTreeMap<Process, u32>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !kinds.requests && !kinds.page_faults {
        notes.push("neither kvm_mmu_spte_requested nor kvm_page_fault is recorded: entries that KVM made ahead count as faults".to_owned());
    }
    match memory {
        Memory::Unknown if kinds.unmaps => notes.push("the memory slots are not known: what was taken away is unexplained; give them by --memory GPA=HVA:SIZE".to_owned()),
        Memory::Inferred(Agreement { agree, votes }) => notes.push(format!("the memory slots are inferred: {agree} of {votes} pages that were taken away and faulted again agree; --memory gives them")),
        _ => {}
    }
    if !kinds.unmaps && !kinds.changes {
        notes.push("neither kvm_unmap_hva_range nor kvm_tdp_mmu_spte_changed is recorded: what was taken away is not known".to_owned());
    }
    if !kinds.calls {
        notes.push("no call that discards is recorded (syscalls:sys_enter_madvise and others): discards are not told from other take-downs".to_owned());
    }
    if !kinds.ioctls {
        notes.push(
            "no ioctl is recorded: dirty logging and the VM's beginning are not known".to_owned(),
        );
    }
    notes.extend(
        merged
            .iter()
            .map(|(process, vms)| merged_vms(*process, *vms)),
    );
    if has_lost {
        notes.push("records were lost: of pages last seen before, the cause is unknown".to_owned());
    }
    notes
}

/// Says of VMs that are taken as one what is not known, and how to record what tells them apart.
fn merged_vms(process: Process, vms: u32) -> String {
    let (process, remedy) = match process {
        Some(process) => (
            format!("process {process} has"),
            "KVM_CREATE_VCPU and KVM_RUN tell its VMs apart (pagetoll read --how why)",
        ),
        None => (
            "the text names no process and has".to_owned(),
            "perf.data names processes",
        ),
    };
    format!(
        "{process} {vms} VMs, which are taken as one: what one touches first after another began is unexplained, and what happened to a page of one counts for that page of all; {remedy}"
    )
}

//! The first reading: which events a capture has, where records were lost, and where guest memory is.

use std::collections::{BTreeMap, BTreeSet};

use pagetoll_ftrace::tracepoint::{Event, Item, Payload};

use super::TraceError;
use super::gaps::{Gaps, InGaps};
use super::machines::{Machines, VmId};
use super::pages::Beginning;
use super::report::Memory;
use super::slots::{Slot, Votes};

/// VMs and threads that are followed separately, at most.
pub(super) const MOST_VMS: usize = 4096;
pub(super) const MOST_THREADS: usize = 16_384;

/// Pages of an unmap that may tell where guest memory is.
const FEW_PAGES: u64 = 16;
/// Addresses that are kept of threads that are no VM's.
const MOST_OTHERS: usize = 1 << 20;

/// A process that has a VM; `None` where a text does not name processes.
pub(super) type Process = Option<u32>;

/// Events of a kind that a capture has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) requests: bool,
    pub(super) page_faults: bool,
    pub(super) changes: bool,
    pub(super) exits: bool,
    pub(super) unmaps: bool,
    pub(super) calls: bool,
    pub(super) ioctls: bool,
    mappings: bool,
}

/// Growing knowledge of a capture.
#[derive(Debug, Default)]
pub(super) struct Survey {
    kinds: Kinds,
    gaps: Gaps,
    machines: Machines,
    votes: BTreeMap<VmId, Votes>,
    /// VMs that had a page before any is known to begin.
    earlier: BTreeSet<VmId>,
    /// Address that a thread took one page from, with its last event.
    taken: BTreeMap<Option<u32>, u64>,
    /// Ranges that threads took which are no VM's.
    others: Vec<u64>,
}

/// A VM's memory, as it is known before the second reading.
#[derive(Debug)]
pub(super) struct VmFacts {
    pub(super) slots: Vec<Slot>,
    pub(super) memory: Memory,
    pub(super) beginning: Beginning,
}

/// Result of the first reading.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) kinds: Kinds,
    pub(super) gaps: InGaps,
    pub(super) has_lost: bool,
    pub(super) vms: BTreeMap<VmId, VmFacts>,
    /// VMs of a process that are taken as one, of each that has several.
    pub(super) merged: BTreeMap<Process, u32>,
}

impl Survey {
    pub(super) fn take(&mut self, item: &Item) {
        match item {
            Item::Event(event) => {
                self.gaps.see(event);
                self.event(event);
            }
            Item::Lost(lost) => self.gaps.lose(lost),
        }
    }

    fn event(&mut self, event: &Event) {
        let (process, thread) = (event.task.pid, event.task.tid);
        self.machines.begin(event);
        let vm = self.machines.of_fault(event);
        let kinds = &mut self.kinds;
        let mut taken = None;
        match &event.payload {
            Payload::SpteRequested(request) => {
                kinds.requests = true;
                let gfn = request.gfn.0;
                if let Some(hva) = self.taken.get(&thread).filter(|_| request.level == 1) {
                    let hva = *hva;
                    self.vote(vm, |votes| votes.name(hva, gfn));
                }
            }
            Payload::KvmPageFault(_) => kinds.page_faults = true,
            Payload::KvmExit(_) => kinds.exits = true,
            Payload::MemoryCall(_) => kinds.calls = true,
            Payload::SetSpte(set) => {
                kinds.mappings = true;
                let gfn = set.gfn.0;
                self.vote(vm, |votes| votes.map(gfn));
            }
            Payload::FastPageFault(_) => {
                kinds.mappings = true;
                self.vote(vm, |_| ());
            }
            Payload::SpteChanged(changed) => {
                kinds.changes = true;
                let gfn = changed.gfn.0;
                let is_gone = super::follower::is_leaf(changed.old_spte, changed.level)
                    && !super::follower::is_present(changed.new_spte);
                if let Some(hva) = self.taken.get(&thread)
                    && changed.level == 1
                    && is_gone
                    && let Some(vm) = self.changed(event)
                {
                    let hva = *hva;
                    self.vote(vm, |votes| votes.name(hva, gfn));
                }
            }
            Payload::KvmUnmapHvaRange { start, end } => {
                kinds.unmaps = true;
                taken = (end.0.checked_sub(start.0) == Some(4096)).then_some(start.0);
                self.unmap(process, start.0, end.0);
            }
            Payload::IoctlEnter { .. } => kinds.ioctls = true,
            _ => {}
        }
        self.machines.end(event);
        match taken {
            Some(hva) if self.taken.len() < MOST_THREADS => {
                self.taken.insert(thread, hva);
            }
            _ => {
                self.taken.remove(&thread);
            }
        }
    }

    /// A few pages may tell where guest memory is; many may be anything.
    fn unmap(&mut self, process: Process, start: u64, end: u64) {
        if end.saturating_sub(start) > FEW_PAGES << 12 {
            return;
        }
        for hva in (start..end).step_by(4096) {
            let mut own = self.votes.range_mut(VmId::all_of(process)).peekable();
            if own.peek().is_none() && self.others.len() < MOST_OTHERS {
                self.others.push(hva);
            }
            own.for_each(|(_, votes)| votes.take(hva));
        }
    }

    /// The VM of which an entry changes, unless the process has several and none is named.
    fn changed(&self, event: &Event) -> Option<VmId> {
        let vm = self.machines.of_work(event, &self.votes)?;
        self.votes.contains_key(&vm).then_some(vm)
    }

    /// VMs that are taken as one: vCPUs of those of a process are not told apart.
    fn merged(&self) -> BTreeMap<Process, u32> {
        let merged = self.votes.keys().filter_map(|vm| {
            let made = self.machines.made(vm.process);
            let all = made.saturating_add(self.earlier.contains(vm).into());
            let are_merged = all > 1 && !self.machines.are_told_apart(vm.process);
            are_merged.then_some((vm.process, all))
        });
        merged.collect()
    }

    fn vote(&mut self, vm: VmId, vote: impl FnOnce(&mut Votes)) {
        let is_known = self.votes.contains_key(&vm);
        if !is_known && self.votes.len() >= MOST_VMS {
            return;
        }
        if !is_known && self.machines.made(vm.process) == 0 {
            self.earlier.insert(vm);
        }
        vote(self.votes.entry(vm).or_default());
    }

    /// Refuses a capture without an event that says which page was mapped.
    pub(super) fn finish(mut self, slots: &[Slot]) -> Result<Surveyed, TraceError> {
        if !self.kinds.mappings {
            return Err(TraceError::NoMappings);
        }
        // The one VM's memory, wherever it was taken from.
        if let [votes] = &mut self.votes.values_mut().collect::<Vec<_>>()[..] {
            self.others.drain(..).for_each(|hva| votes.take(hva));
        }
        let vms = self.votes.iter().map(|(vm, votes)| {
            let is_whole = self.machines.has_beginning(*vm) && !self.earlier.contains(vm);
            let beginning = match is_whole {
                true => Beginning::Recorded,
                false => Beginning::Earlier,
            };
            let (slots, memory) = match (slots, votes.slots()) {
                ([_, ..], _) => (slots.to_vec(), Memory::Given),
                ([], Some((slots, agreement))) => (slots, Memory::Inferred(agreement)),
                ([], None) if self.kinds.changes => (Vec::new(), Memory::ByFrame),
                ([], None) => (Vec::new(), Memory::Unknown),
            };
            let facts = VmFacts {
                slots,
                memory,
                beginning,
            };
            (*vm, facts)
        });
        let vms: BTreeMap<_, _> = vms.collect();
        let merged = self.merged();
        let gaps = self.gaps.finish();
        Ok(Surveyed {
            kinds: self.kinds,
            has_lost: !gaps.is_empty(),
            gaps: InGaps::new(gaps),
            vms,
            merged,
        })
    }
}

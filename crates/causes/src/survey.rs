//! The first reading: which events a capture has, where records were lost, and where guest memory is.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Event, Item, Payload};

use super::TraceError;
use super::gaps::{Gaps, InGaps};
use super::report::Memory;
use super::slots::{Slot, Votes};
use super::thread::ioctl;

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
    votes: BTreeMap<Process, Votes>,
    begun: BTreeMap<Process, ()>,
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
    pub(super) is_whole: bool,
}

/// Result of the first reading.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) kinds: Kinds,
    pub(super) gaps: InGaps,
    pub(super) has_lost: bool,
    pub(super) vms: BTreeMap<Process, VmFacts>,
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
        let kinds = &mut self.kinds;
        let mut taken = None;
        match &event.payload {
            Payload::SpteRequested(request) => {
                kinds.requests = true;
                let gfn = request.gfn.0;
                if let Some(hva) = self.taken.get(&thread).filter(|_| request.level == 1) {
                    let hva = *hva;
                    self.vote(process, |votes| votes.name(hva, gfn));
                }
            }
            Payload::KvmPageFault(_) => kinds.page_faults = true,
            Payload::KvmExit(_) => kinds.exits = true,
            Payload::MemoryCall(_) => kinds.calls = true,
            Payload::SetSpte(set) => {
                kinds.mappings = true;
                let gfn = set.gfn.0;
                self.vote(process, |votes| votes.map(gfn));
            }
            Payload::FastPageFault(_) => {
                kinds.mappings = true;
                self.vote(process, |_| ());
            }
            Payload::SpteChanged(changed) => {
                kinds.changes = true;
                let gfn = changed.gfn.0;
                let is_gone = super::follower::is_leaf(changed.old_spte, changed.level)
                    && !super::follower::is_present(changed.new_spte);
                if let Some(hva) = self.taken.get(&thread)
                    && changed.level == 1
                    && is_gone
                    && self.votes.contains_key(&process)
                {
                    let hva = *hva;
                    self.vote(process, |votes| votes.name(hva, gfn));
                }
            }
            Payload::KvmUnmapHvaRange { start, end } => {
                kinds.unmaps = true;
                taken = (end.0.checked_sub(start.0) == Some(4096)).then_some(start.0);
                self.unmap(process, start.0, end.0);
            }
            Payload::IoctlEnter { cmd, .. } => {
                kinds.ioctls = true;
                if *cmd == ioctl::CREATE_VM && self.begun.len() < MOST_VMS {
                    self.begun.insert(process, ());
                }
            }
            _ => {}
        }
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
            match self.votes.get_mut(&process) {
                Some(votes) => votes.take(hva),
                None if self.others.len() < MOST_OTHERS => self.others.push(hva),
                None => {}
            }
        }
    }

    fn vote(&mut self, process: Process, vote: impl FnOnce(&mut Votes)) {
        if self.votes.len() < MOST_VMS || self.votes.contains_key(&process) {
            vote(self.votes.entry(process).or_default());
        }
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
        let vms = self.votes.iter().map(|(process, votes)| {
            let is_whole = self.begun.contains_key(process);
            let (slots, memory) = match (slots, votes.slots()) {
                ([_, ..], _) => (slots.to_vec(), Memory::Given),
                ([], Some((slots, agreement))) => (slots, Memory::Inferred(agreement)),
                ([], None) if self.kinds.changes => (Vec::new(), Memory::ByFrame),
                ([], None) => (Vec::new(), Memory::Unknown),
            };
            let facts = VmFacts {
                slots,
                memory,
                is_whole,
            };
            (*process, facts)
        });
        let vms = vms.collect();
        let gaps = self.gaps.finish();
        Ok(Surveyed {
            kinds: self.kinds,
            has_lost: !gaps.is_empty(),
            gaps: InGaps::new(gaps),
            vms,
        })
    }
}

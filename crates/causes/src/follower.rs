//! The second reading: each page from event to event.

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_ftrace::tracepoint::{
    Event, FastPageFault, Item, KvmPageFault, MemoryCall, Name, Payload, SetSpte, SplitHugePage,
    SpteChanged, SpteRequested,
};
use pagetoll_observation::Capture;
use pagetoll_units::{Gfn, Nanos};

use super::gaps::InGaps;
use super::machines::{Machines, VmId};
use super::pages::{Mapping, Origin, Pages, TakeDown, Taker};
use super::report::{Causes, Counts, Memory};
use super::slots::Slot;
use super::survey::{Kinds, MOST_THREADS, Process, Surveyed};
use super::thread::{Call, Taken, Thread, ioctl};
use super::{Cause, Fault};

/// `PT_WRITABLE_MASK`, and `VMX_EPT_WRITABLE_MASK`.
const WRITABLE: u64 = 1 << 1;
/// `DEFAULT_SPTE_HOST_WRITABLE` and `EPT_SPTE_HOST_WRITABLE`. Of EPT, bit 9 is the dirty flag, which an entry that is not
/// writable does not have.
const HOST_WRITABLE: u64 = 1 << 9 | 1 << 57;
/// `SPTE_MMU_PRESENT_MASK` since Linux 5.13, and the bit that all present entries had before.
const PRESENT: u64 = 1 << 11 | 1;
/// `PT_PAGE_SIZE_MASK`.
const HUGE: u64 = 1 << 7;
/// `PFERR_PRESENT_MASK`.
const FAULT_ON_PRESENT: u64 = 1;

pub(super) const fn is_present(spte: u64) -> bool {
    spte & PRESENT != 0
}

pub(super) const fn is_leaf(spte: u64, level: u32) -> bool {
    is_present(spte) && (level == 1 || spte & HUGE != 0)
}

/// A VM.
struct Vm {
    pages: Pages,
    slots: Vec<Slot>,
}

impl Vm {
    fn frames(&self, start: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
        let slots = self.slots.iter();
        slots.filter_map(move |slot| slot.frames(start, end))
    }

    fn has(&self, taken: &Taken) -> bool {
        self.frames(taken.start, taken.end).next().is_some()
    }

    const fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Takes away what is at these addresses.
    fn take(&mut self, record: u64, taken: &Taken) {
        let frames: Vec<_> = self.frames(taken.start, taken.end).collect();
        if frames.is_empty() {
            self.pages.take_outside(record);
        }
        let own: Vec<_> = self.frames(taken.own.0, taken.own.1).collect();
        for frames in frames {
            let meets = |own: &&Range<u64>| own.start < frames.end && frames.start < own.end;
            let own = own.iter().find(meets).cloned().unwrap_or(0..0);
            let own = own.start.max(frames.start)..own.end.min(frames.end);
            let own = if own.is_empty() { 0..0 } else { own };
            let taker = taken.taker;
            self.pages
                .take_down(record, &TakeDown { frames, own, taker });
        }
    }
}

/// Follows the pages of all VMs.
pub(super) struct Follower<'a> {
    kinds: Kinds,
    gaps: InGaps,
    has_lost: bool,
    memory: BTreeMap<VmId, Memory>,
    machines: Machines,
    merged: BTreeMap<Process, u32>,
    vms: BTreeMap<VmId, Vm>,
    threads: BTreeMap<Option<u32>, Thread>,
    record: u64,
    counts: Counts,
    on_fault: &'a mut dyn FnMut(Fault),
}

impl<'a> Follower<'a> {
    pub(super) fn new(surveyed: Surveyed, on_fault: &'a mut dyn FnMut(Fault)) -> Self {
        let mut memory = BTreeMap::new();
        let mut vms = BTreeMap::new();
        for (id, facts) in surveyed.vms {
            memory.insert(id, facts.memory);
            let slots = facts.slots;
            let all = |slot: &Slot| slot.frames(slot.hva, slot.hva + slot.size);
            let frames = slots.iter().filter_map(all).collect();
            let pages = Pages::new(facts.beginning, frames);
            vms.insert(id, Vm { pages, slots });
        }
        Self {
            kinds: surveyed.kinds,
            gaps: surveyed.gaps,
            has_lost: surveyed.has_lost,
            memory,
            machines: Machines::default(),
            merged: surveyed.merged,
            vms,
            threads: BTreeMap::new(),
            record: 0,
            counts: Counts::default(),
            on_fault,
        }
    }

    pub(super) fn causes(self, capture: Capture) -> Causes {
        self.counts.causes(
            capture,
            self.kinds,
            &self.memory,
            self.has_lost,
            &self.merged,
        )
    }

    pub(super) fn take(&mut self, item: &Item) {
        let Item::Event(event) = item else { return };
        self.record += 1;
        if let Some(Nanos(time)) = event.time.time() {
            self.counts.see(time);
        }
        if event
            .time
            .reading()
            .is_some_and(|reading| self.gaps.is_within(reading))
        {
            // This record itself is there: what it says of a page is newer than the gap, or the gap goes on.
            let lost = self.record - 1;
            let vms = self.vms.values_mut();
            vms.for_each(|vm| vm.pages.lose(lost.max(1)));
            self.threads.values_mut().for_each(Thread::lose);
        }
        self.machines.begin(event);
        let taken = self.thread(event).and_then(|thread| thread.taken.take());
        match &event.payload {
            Payload::SpteRequested(request) => self.request(event, *request),
            Payload::KvmPageFault(fault) => self.fault(event, *fault),
            Payload::SetSpte(set) => self.set(event, *set),
            Payload::FastPageFault(fault) => self.fast(event, *fault),
            Payload::SpteChanged(changed) => self.change(event, *changed, taken),
            Payload::SplitHugePage(split) => self.split(event, *split),
            Payload::KvmUnmapHvaRange { start, end } => {
                self.unmap(event, start.0..end.0, taken);
            }
            Payload::ZapAllFast => self.drop_all(event),
            Payload::MemoryCall(call) => self.call(event, *call),
            Payload::IoctlEnter { cmd, .. } => self.ioctl(event, *cmd),
            Payload::IoctlExit { .. } => self.ioctl_end(event),
            Payload::MemoryCallExit => self.on_thread(event, |thread| thread.call = None),
            Payload::HostWork(work, edge) => {
                self.on_thread(event, |thread| thread.work(*work, *edge));
            }
            Payload::KvmExit(_) => self.exit(event),
            Payload::KvmEntry(_) => self.enter(event),
            _ => {}
        }
        self.machines.end(event);
    }

    fn thread(&mut self, event: &Event) -> Option<&mut Thread> {
        let tid = event.task.tid;
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
            return None;
        }
        Some(self.threads.entry(tid).or_default())
    }

    fn on_thread(&mut self, event: &Event, change: impl FnOnce(&mut Thread)) {
        if let Some(thread) = self.thread(event) {
            change(thread);
        }
    }

    fn request(&mut self, event: &Event, request: SpteRequested) {
        self.on_thread(event, |thread| {
            thread.call = None;
            thread.requested = Some(request.gfn.0);
        });
    }

    fn fault(&mut self, event: &Event, fault: KvmPageFault) {
        self.counts.page_faults += 1;
        self.on_thread(event, |thread| {
            thread.call = None;
            thread.faulted = Some(fault.error_code);
            thread.tried.fault(fault.address >> 12);
        });
    }

    fn exit(&mut self, event: &Event) {
        self.on_thread(event, |thread| {
            thread.call = None;
            thread.exit = event.time.time();
            thread.answered = None;
            thread.faulted = None;
        });
    }

    /// The vCPU goes on: it was stopped since its exit, or since the first of several for a fault that KVM gave up and saw again.
    fn enter(&mut self, event: &Event) {
        let Some(thread) = self.thread(event) else {
            return;
        };
        let (exit, answered) = (thread.exit.take(), thread.answered.take());
        let is_unanswered = thread.faulted.take().is_some();
        thread.requested = None;
        let (Some(exit), Some(Nanos(entry))) = (exit, event.time.time()) else {
            return;
        };
        let nanos = entry.saturating_sub(exit.0);
        if let Some(cause) = answered {
            let tried = std::mem::take(&mut thread.tried);
            self.counts
                .stall(&event.task, cause, nanos.saturating_add(tried.nanos));
        } else if is_unanswered {
            thread.tried.nanos = thread.tried.nanos.saturating_add(nanos);
        }
    }

    fn set(&mut self, event: &Event, set: SetSpte) {
        let SetSpte { gfn, level, spte } = set;
        let by_request = self.kinds.requests;
        let by_fault = self.kinds.page_faults && !by_request;
        let Some(thread) = self.thread(event) else {
            return;
        };
        let pages = 512_u64.pow(level.clamp(1, 3) - 1);
        let faulted = thread.faulted.take();
        let requested = thread
            .requested
            .take_if(|requested| *requested / pages == gfn.0 / pages);
        let is_fault = match (by_request, by_fault) {
            (true, _) => requested.is_some(),
            (_, true) => faulted.is_some(),
            (false, false) => true,
        };
        let mapping = Mapping {
            gfn: gfn.0,
            level: level.clamp(1, 3),
            writable: spte & WRITABLE != 0,
            host_writable: spte & (WRITABLE | HOST_WRITABLE) != 0,
            was_present: faulted.map(|code| code & FAULT_ON_PRESENT != 0),
        };
        let record = self.record;
        let id = self.machines.of_fault(event);
        let Some(vm) = self.vms.get_mut(&id) else {
            return;
        };
        let cause = vm.pages.map(record, mapping);
        match is_fault {
            true => self.count(event, id, gfn.0, cause),
            false => self.counts.ahead += 1,
        }
    }

    fn fast(&mut self, event: &Event, fault: FastPageFault) {
        if !fault.fixed {
            self.counts.spurious += u64::from(fault.spurious);
            return;
        }
        let is_protection = fault.old_spte & WRITABLE == 0 && fault.new_spte & WRITABLE != 0;
        let gfn = fault.address >> 12;
        let record = self.record;
        let id = self.machines.of_fault(event);
        let Some(vm) = self.vms.get_mut(&id) else {
            return;
        };
        let cause = match vm.pages.make_writable(record, gfn) {
            Cause::DirtyLog if !is_protection => Cause::Unexplained,
            cause => cause,
        };
        self.on_thread(event, |thread| thread.faulted = None);
        self.count(event, id, gfn, cause);
    }

    fn count(&mut self, event: &Event, vm: VmId, gfn: u64, cause: Cause) {
        self.on_thread(event, |thread| {
            thread.answered.get_or_insert(cause);
        });
        self.counts.fault(&event.task, vm, gfn, cause);
        (self.on_fault)(Fault {
            time: event.time.time(),
            process: event.task.pid,
            thread: event.task.tid,
            gfn: Gfn(gfn),
            cause,
        });
    }

    fn unmap(&mut self, event: &Event, range: Range<u64>, before: Option<Taken>) {
        let Some(taken) = self
            .thread(event)
            .map(|thread| thread.take(event, range, before.as_ref()))
        else {
            return;
        };
        if before.as_ref() != Some(&taken) {
            self.counts.taken(&taken);
        }
        let own = VmId::all_of(event.task.pid);
        if self.kinds.changes {
            // Entries go by their frames; but of what a call discards, nothing is left.
            if let Some(discarded) = taken.discarded() {
                self.take_of_process(event, &discarded, |vm| vm.has_slots());
            }
        } else if self.vms.range(own).next().is_some() {
            self.take_of_process(event, &taken, |_| true);
        } else {
            self.take_of_any(&taken);
        }
    }

    /// Takes away from the VMs of a process that can tell. Slots that the user gave may be those of any that is there.
    fn take_of_process(&mut self, event: &Event, taken: &Taken, can_tell: fn(&Vm) -> bool) {
        let (record, machines, memory) = (self.record, &self.machines, &self.memory);
        let own = self.vms.range_mut(VmId::all_of(event.task.pid));
        let own = own.filter(|(id, vm)| machines.is_open(**id) && can_tell(vm));
        let own: Vec<_> = own.collect();
        let is_given = |(id, _): &(&VmId, &mut Vm)| memory.get(id) == Some(&Memory::Given);
        let may_be_any = own.len() > 1 && own.iter().any(is_given);
        for (_, vm) in own {
            match !vm.has_slots() || may_be_any && vm.has(taken) {
                true => vm.pages.take_unjoined(record),
                false => vm.take(record, taken),
            }
        }
    }

    /// Takes away for another process, or for the kernel: it may be any VM whose memory is there, and no fault of its own.
    fn take_of_any(&mut self, taken: &Taken) {
        let record = self.record;
        let taker = match taken.taker {
            Taker::Fault => Taker::Other(Origin::Unknown),
            taker => taker,
        };
        let taken = Taken {
            taker,
            ..taken.clone()
        };
        let mut hit: Vec<_> = self
            .vms
            .values_mut()
            .filter(|vm| !vm.has_slots() || vm.has(&taken))
            .collect();
        match &mut hit[..] {
            [vm] if vm.has_slots() => vm.take(record, &taken),
            several => several
                .iter_mut()
                .for_each(|vm| vm.pages.take_unjoined(record)),
        }
    }

    /// The VM that a thread's work is about.
    fn worked_on(&mut self, event: &Event) -> Option<&mut Vm> {
        let vm = self.machines.of_work(event, &self.vms)?;
        self.vms.get_mut(&vm)
    }

    /// The VM of which an entry changes: also the one whose memory was just taken, or the only one of a capture.
    fn changed(&self, event: &Event, gfn: u64, taken: Option<&Taken>) -> Option<VmId> {
        let of_frame = |(vm, known): (&VmId, &Vm)| {
            let mut frames = known.frames(taken?.start, taken?.end);
            frames.any(|frames| frames.contains(&gfn)).then_some(*vm)
        };
        let by_frame = || {
            let mut own = self.vms.range(VmId::all_of(event.task.pid));
            let mut hit = own.by_ref().filter_map(of_frame);
            hit.next().filter(|_| hit.next().is_none())
        };
        let only = || {
            let mut all = self.vms.keys().copied();
            all.next().filter(|_| all.next().is_none())
        };
        let named = self.machines.of_work(event, &self.vms);
        named.or_else(by_frame).or_else(only)
    }

    /// Something of a process was taken away, and it is not known from which of its VMs; or from which of all.
    fn take_unjoined(&mut self, event: &Event) {
        let record = self.record;
        let own = VmId::all_of(event.task.pid);
        let has_own = self.vms.range(own.clone()).next().is_some();
        let may_be = |vm: &VmId| !has_own || own.contains(vm);
        let vms = self.vms.iter_mut().filter(|(vm, _)| may_be(vm));
        vms.for_each(|(_, vm)| vm.pages.take_unjoined(record));
    }

    fn change(&mut self, event: &Event, changed: SpteChanged, taken: Option<Taken>) {
        let SpteChanged {
            gfn,
            level,
            old_spte,
            new_spte,
        } = changed;
        let record = self.record;
        let call = self.thread(event).and_then(|thread| thread.call);
        // Whatever was taken at once changes one entry after the other.
        self.on_thread(event, |thread| thread.taken.clone_from(&taken));
        let Some(id) = self.changed(event, gfn.0, taken.as_ref()) else {
            return self.take_unjoined(event);
        };
        let Some(vm) = self.vms.get_mut(&id) else {
            return;
        };
        if !is_leaf(old_spte, level) {
            return;
        }
        if !is_present(new_spte) {
            let down = zap(vm, gfn.0, level, call, taken.as_ref());
            vm.pages.take_down(record, &down);
        } else if level > 1 && new_spte & HUGE == 0 {
            vm.pages.replace(record, gfn.0);
        } else if old_spte & WRITABLE != 0 && new_spte & WRITABLE == 0 {
            let origin = match call {
                Some(Call::Ioctl(_)) => Origin::DirtyLog,
                _ => Origin::Unknown,
            };
            vm.pages.protect(record, gfn.0, level.clamp(1, 3), origin);
        }
    }

    fn split(&mut self, event: &Event, split: SplitHugePage) {
        let record = self.record;
        if let (0, Some(vm)) = (split.errno, self.worked_on(event)) {
            vm.pages.split(record, split.gfn.0, split.level);
        }
    }

    fn drop_all(&mut self, event: &Event) {
        let record = self.record;
        match self.worked_on(event) {
            Some(vm) => vm.pages.drop_all(record),
            None => self.take_unjoined(event),
        }
    }

    fn call(&mut self, event: &Event, call: MemoryCall) {
        let (call, discard) = Call::new(call);
        if let Some((kind, bytes)) = discard {
            self.counts.discard(kind, bytes);
        }
        self.on_thread(event, |thread| thread.call = Some(call));
    }

    fn ioctl(&mut self, event: &Event, cmd: u32) {
        let call = Call::ioctl(cmd);
        self.on_thread(event, |thread| thread.call = call);
        if matches!(call, Some(Call::Ioctl(_))) {
            self.log(event);
        }
        let vm = VmId {
            process: event.task.pid,
            number: 0,
        };
        if cmd == ioctl::CREATE_VM
            && self.merged.contains_key(&vm.process)
            && let Some(vm) = self.vms.get_mut(&vm)
        {
            vm.pages.succeed();
        }
    }

    /// Entries are protected between the beginning and the end.
    fn ioctl_end(&mut self, event: &Event) {
        let call = self.thread(event).and_then(|thread| thread.call.take());
        if matches!(call, Some(Call::Ioctl(_))) {
            self.log(event);
        }
    }

    fn log(&mut self, event: &Event) {
        let record = self.record;
        if let Some(vm) = self.worked_on(event) {
            vm.pages.log(record);
        }
    }
}

/// An entry that was zapped: what took it, and which of its pages the call was about.
fn zap(vm: &Vm, gfn: u64, level: u32, call: Option<Call>, taken: Option<&Taken>) -> TakeDown {
    let pages = 512_u64.pow(level.clamp(1, 3) - 1);
    let first = gfn - gfn % pages;
    let frames = first..first.saturating_add(pages);
    let unknown = |origin| TakeDown {
        frames: frames.clone(),
        own: 0..0,
        taker: Taker::Other(origin),
    };
    let Some(taken) = taken else {
        return unknown(match call {
            Some(Call::Ioctl(ioctl::SET_USER_MEMORY_REGION | ioctl::SET_USER_MEMORY_REGION2)) => {
                Origin::Memslots
            }
            _ => Origin::Unknown,
        });
    };
    if taken.taker != Taker::Discard {
        return TakeDown {
            taker: taken.taker,
            own: 0..0,
            frames,
        };
    }
    let own = if !vm.slots.is_empty() {
        let own = vm.frames(taken.own.0, taken.own.1);
        let meets = |own: &Range<u64>| own.start < frames.end && frames.start < own.end;
        let own = own.into_iter().find(meets).unwrap_or(0..0);
        own.start.max(frames.start)..own.end.min(frames.end)
    } else if taken.is_own() && level == 1 {
        frames.clone()
    } else if level == 2 && taken.end.saturating_sub(taken.start) <= 2 << 20 {
        // A huge entry has its frames and addresses alike modulo its size.
        let page = |address: u64| (address >> 12) % 512;
        let (start, end) = (
            taken.own.0.max(taken.start & !0x1f_ffff),
            taken.own.1.min((taken.start & !0x1f_ffff) + (2 << 20)),
        );
        match start < end {
            true => first + page(start)..first + page(end - 1) + 1,
            false => 0..0,
        }
    } else if taken.is_own() && taken.start % (2 << 20) == 0 && taken.end % (2 << 20) == 0 {
        frames.clone()
    } else {
        return unknown(Origin::Unknown);
    };
    let own = if own.is_empty() { 0..0 } else { own };
    TakeDown {
        frames,
        own,
        taker: Taker::Discard,
    }
}

/// A thread as it is named in tables.
pub(super) type ThreadKey = (Name, Option<u32>);

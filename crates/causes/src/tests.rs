//! Each cause alone, and sequences of them against a simulated memory that knows why its pages fault.

mod machines;
mod memory;

use pagetoll_ftrace::tracepoint::{
    Edge, Event, FastPageFault, HostWork, Item, KvmEntry, KvmExit, KvmPageFault, Lost, MemoryCall,
    Name, Payload, SetSpte, SpteChanged, SpteRequested, Stamp, Task,
};
use pagetoll_observation::Capture;
use pagetoll_units::{Gfn, Hva, Nanos, VirtualAddress};

use super::follower::Follower;
use super::slots::Slot;
use super::survey::Survey;
use super::thread::ioctl;
use super::{Cause, Causes, Fault, Memory};

/// Where guest memory is in the VMM.
const BASE: u64 = 0x7f00_0000_0000;
const VCPU: &str = "CPU 0/KVM";
const VMM: &str = "vmm";
/// Present, accessed; of a shadow page that the host lets write.
const READ_ONLY: u64 = 0x821;
const WRITABLE: u64 = 0xe67;
const HUGE: u64 = 0x80;

/// Events, a microsecond apart.
#[derive(Default)]
struct Trace {
    items: Vec<Item>,
    time: u64,
}

impl Trace {
    fn on(&mut self, comm: &str, tid: u32, pid: u32, payload: Payload) {
        self.time += 1000;
        self.items.push(Item::Event(Event {
            time: Stamp::Time(Nanos(self.time)),
            cpu: Some(0),
            task: Task {
                pid: Some(pid),
                tid: Some(tid),
                comm: Name::from(comm),
            },
            payload,
        }));
    }

    fn vcpu(&mut self, payload: Payload) {
        self.on(VCPU, 11, 10, payload);
    }

    fn vmm(&mut self, payload: Payload) {
        self.on(VMM, 10, 10, payload);
    }

    /// A VM begins in the capture.
    fn begin(&mut self) {
        self.ioctl(ioctl::CREATE_VM);
    }

    fn ioctl(&mut self, cmd: u32) {
        let (fd, arg) = (3, 0);
        self.vmm(Payload::IoctlEnter { fd, cmd, arg });
        self.vmm(Payload::IoctlExit { ret: 0 });
    }

    fn request(&mut self, gfn: u64, level: u32) {
        let gfn = Gfn(gfn);
        self.vcpu(Payload::SpteRequested(SpteRequested { gfn, level }));
    }

    fn set(&mut self, gfn: u64, level: u32, spte: u64) {
        let gfn = Gfn(gfn);
        self.vcpu(Payload::SetSpte(SetSpte { gfn, level, spte }));
    }

    fn fault(&mut self, gfn: u64, level: u32, spte: u64) {
        self.request(gfn, level);
        self.set(gfn, level, spte);
    }

    fn unmap(first: u64, pages: u64) -> Payload {
        Payload::KvmUnmapHvaRange {
            start: Hva(BASE + first * 4096),
            end: Hva(BASE + (first + pages) * 4096),
        }
    }

    fn madvise(first: u64, pages: u64, advice: u32) -> Payload {
        Payload::MemoryCall(MemoryCall::Madvise {
            start: BASE + first * 4096,
            length: pages * 4096,
            advice,
        })
    }

    /// A call that takes other pages than it is about.
    fn call(&mut self, call: Payload, taken: &[(u64, u64)]) {
        self.zapping_call(call, taken, &[]);
    }

    /// [`Self::call`], with entries that KVM's TDP MMU zaps for it.
    fn zapping_call(&mut self, call: Payload, taken: &[(u64, u64)], zapped: &[Payload]) {
        self.vmm(call);
        for (first, pages) in taken {
            self.vmm(Self::unmap(*first, *pages));
        }
        zapped.iter().for_each(|zapped| self.vmm(zapped.clone()));
        self.vmm(Payload::MemoryCallExit);
    }

    fn changed(gfn: u64, level: u32, old_spte: u64, new_spte: u64) -> Payload {
        Payload::SpteChanged(SpteChanged {
            gfn: Gfn(gfn),
            level,
            old_spte,
            new_spte,
        })
    }

    fn lose(&mut self) {
        self.time += 1000;
        self.items.push(Item::Lost(Lost {
            time: Some(Nanos(self.time)),
            cpu: Some(0),
            records: Some(1),
        }));
    }
}

fn exit() -> Payload {
    Payload::KvmExit(KvmExit {
        reason: Name::from("EPT_VIOLATION"),
        pc: VirtualAddress(0),
        info1: None,
        info2: None,
    })
}

fn slot() -> Slot {
    Slot {
        gpa: 0,
        hva: BASE,
        size: 1 << 32,
    }
}

fn follow(items: &[Item], slots: &[Slot]) -> (Vec<(u64, Cause)>, Causes) {
    let mut survey = Survey::default();
    items.iter().for_each(|item| survey.take(item));
    let mut found = Vec::new();
    let mut take = |fault: Fault| found.push((fault.gfn.0, fault.cause));
    let mut follower = Follower::new(survey.finish(slots).unwrap(), &mut take);
    items.iter().for_each(|item| follower.take(item));
    let causes = follower.causes(Capture::default());
    (found, causes)
}

fn told(trace: &Trace) -> Vec<(u64, Cause)> {
    follow(&trace.items, &[slot()]).0
}

fn last(trace: &Trace) -> Cause {
    told(trace).last().unwrap().1
}

/// Page 5 was written, in a capture that has the VM's beginning.
fn written() -> Trace {
    let mut trace = Trace::default();
    trace.begin();
    trace.fault(5, 1, WRITABLE);
    trace
}

#[test]
fn the_first_touch_is_one_only_where_the_vm_began() {
    assert_eq!(told(&written()), [(5, Cause::FirstTouch)]);
    let mut trace = Trace::default();
    trace.fault(5, 1, WRITABLE);
    trace.call(Trace::madvise(6, 1, 4), &[(6, 1)]);
    trace.fault(6, 1, WRITABLE);
    let expected = [(5, Cause::FirstSeen), (6, Cause::FirstAfterDiscard)];
    assert_eq!(told(&trace), expected);
}

#[test]
fn a_discard_is_told_from_what_goes_beside_it() {
    let calls = [
        Trace::madvise(5, 1, 4),
        Trace::madvise(5, 1, 8),
        Trace::madvise(5, 1, 9),
        Payload::MemoryCall(MemoryCall::Munmap {
            start: BASE + 5 * 4096,
            length: 4096,
        }),
        Payload::MemoryCall(MemoryCall::Mmap {
            start: BASE + 5 * 4096,
            length: 4096,
            flags: 0x32,
        }),
        Payload::MemoryCall(MemoryCall::Fallocate {
            mode: 3,
            length: 4096,
        }),
    ];
    for call in calls {
        let mut trace = written();
        trace.fault(6, 1, WRITABLE);
        trace.call(call.clone(), &[(5, 1), (0, 512)]);
        trace.fault(5, 1, WRITABLE);
        trace.fault(6, 1, WRITABLE);
        let expected = [(5, Cause::Discarded), (6, Cause::BesideDiscard)];
        assert_eq!(told(&trace)[2..], expected, "{call:?}");
    }
}

#[test]
fn a_huge_entry_goes_whole_and_each_page_has_its_cause() {
    let mut trace = Trace::default();
    trace.begin();
    trace.fault(512, 2, WRITABLE | HUGE);
    trace.call(Trace::madvise(600, 2, 4), &[(600, 2), (512, 512)]);
    trace.call(Trace::madvise(700, 1, 4), &[(700, 1)]);
    for page in [599, 600, 601, 602, 700] {
        trace.fault(page, 1, WRITABLE);
    }
    let expected = [
        (512, Cause::FirstTouch),
        (599, Cause::BesideDiscard),
        (600, Cause::Discarded),
        (601, Cause::Discarded),
        (602, Cause::BesideDiscard),
        (700, Cause::Discarded),
    ];
    assert_eq!(told(&trace), expected);
}

#[test]
fn a_discard_of_the_page_itself_counts_after_any_other() {
    let mut trace = written();
    trace.on("kcompactd0", 40, 40, Trace::unmap(5, 1));
    trace.call(Trace::madvise(5, 1, 4), &[(5, 1)]);
    trace.on("kcompactd0", 40, 40, Trace::unmap(0, 512));
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::Discarded);
}

#[test]
fn fork_and_a_write_to_what_was_read_are_copies() {
    let mut trace = written();
    trace.call(Payload::MemoryCall(MemoryCall::Clone), &[(0, 1024)]);
    trace.fault(5, 1, READ_ONLY);
    assert_eq!(last(&trace), Cause::CopyOnWrite);
    trace.vcpu(Trace::unmap(5, 1));
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::CopyOnWrite);
    let mut trace = Trace::default();
    trace.fault(5, 1, READ_ONLY);
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::CopyOnWrite);
}

#[test]
fn dirty_logging_protects_and_is_told_with_and_without_the_lock() {
    for cmd in [
        ioctl::GET_DIRTY_LOG,
        ioctl::CLEAR_DIRTY_LOG,
        ioctl::SET_USER_MEMORY_REGION,
    ] {
        let mut trace = written();
        trace.ioctl(cmd);
        trace.fault(5, 1, WRITABLE);
        assert_eq!(last(&trace), Cause::DirtyLog);
        trace.ioctl(cmd);
        trace.vcpu(Payload::FastPageFault(FastPageFault {
            address: 5 * 4096,
            error_code: 3,
            old_spte: READ_ONLY,
            new_spte: WRITABLE,
            spurious: false,
            fixed: true,
        }));
        assert_eq!(told(&trace)[1..], [(5, Cause::DirtyLog); 2]);
    }
    let mut trace = written();
    trace.ioctl(ioctl::GET_DIRTY_LOG);
    trace.vcpu(Payload::KvmPageFault(KvmPageFault {
        address: 5 * 4096,
        error_code: 2,
    }));
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::Unexplained, "the entry was not there");
}

#[test]
fn the_kernels_own_work_is_known_by_thread_and_by_span() {
    for comm in ["kcompactd0", "kswapd1", "khugepaged", "ksmd"] {
        let mut trace = written();
        trace.on(comm, 40, 40, Trace::unmap(5, 1));
        trace.fault(5, 1, WRITABLE);
        assert_eq!(last(&trace), Cause::HostMemory, "{comm}");
    }
    for work in [HostWork::Compaction, HostWork::Reclaim, HostWork::Migration] {
        let mut trace = written();
        trace.on("cc1", 50, 50, Payload::HostWork(work, Edge::Begin));
        trace.on("cc1", 50, 50, Trace::unmap(5, 1));
        trace.on("cc1", 50, 50, Payload::HostWork(work, Edge::End));
        trace.fault(5, 1, WRITABLE);
        assert_eq!(last(&trace), Cause::HostMemory);
        trace.on("cc1", 50, 50, Trace::unmap(5, 1));
        trace.fault(5, 1, WRITABLE);
        assert_eq!(last(&trace), Cause::Unexplained);
    }
}

#[test]
fn what_nothing_explains_is_unexplained() {
    let mut trace = written();
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::Unexplained);
    trace.vmm(Trace::unmap(0, 64));
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::Unexplained);
    trace.call(Trace::madvise(5, 1, 4), &[(5, 1)]);
    trace.fault(5, 1, WRITABLE);
    assert_eq!(last(&trace), Cause::Discarded);
    let (without, causes) = follow(&trace.items, &[]);
    assert_eq!(causes.memory, Memory::Unknown);
    assert_eq!(without.last().unwrap().1, Cause::Unexplained);
}

/// A slot that is not known may be where pages were taken.
#[test]
fn of_frames_without_a_slot_nothing_is_concluded() {
    let mut trace = written();
    trace.ioctl(ioctl::GET_DIRTY_LOG);
    trace.call(Trace::madvise(5, 1, 4), &[(5, 1)]);
    trace.fault(5, 1, WRITABLE);
    let elsewhere = Slot {
        gpa: 1 << 32,
        hva: BASE + (1 << 33),
        size: 1 << 32,
    };
    let (found, _) = follow(&trace.items, &[elsewhere]);
    assert_eq!(found.last().unwrap().1, Cause::Unexplained);
}

#[test]
fn a_changed_size_and_changed_slots_are_told() {
    let mut trace = Trace::default();
    trace.begin();
    trace.fault(512, 2, WRITABLE | HUGE);
    trace.fault(513, 1, WRITABLE);
    trace.fault(514, 1, WRITABLE);
    trace.fault(512, 2, WRITABLE | HUGE);
    assert_eq!(
        told(&trace)[1..]
            .iter()
            .map(|(_, cause)| *cause)
            .collect::<Vec<_>>(),
        [Cause::PageSize; 3]
    );
    trace.vmm(Payload::ZapAllFast);
    trace.fault(512, 2, WRITABLE | HUGE);
    assert_eq!(last(&trace), Cause::Memslots);
    trace.call(Payload::MemoryCall(MemoryCall::Mprotect), &[(0, 1024)]);
    trace.fault(512, 2, WRITABLE | HUGE);
    assert_eq!(last(&trace), Cause::Protected);
}

#[test]
fn lost_records_make_what_was_seen_before_unknown() {
    let mut trace = written();
    trace.fault(6, 1, WRITABLE);
    trace.lose();
    trace.fault(6, 1, WRITABLE);
    trace.fault(7, 1, WRITABLE);
    trace.call(Trace::madvise(5, 2, 4), &[(5, 2)]);
    trace.fault(6, 1, WRITABLE);
    let expected = [
        (6, Cause::RecordsLost),
        (7, Cause::RecordsLost),
        (6, Cause::Discarded),
    ];
    assert_eq!(told(&trace)[2..], expected);
}

/// A record of another CPU while one lost records is as uncertain.
#[test]
fn a_gap_begins_with_the_last_record_of_its_cpu() {
    let mut trace = written();
    let (begin, end) = (trace.time, trace.time + 100_000);
    trace.fault(6, 1, WRITABLE);
    for item in trace.items.iter_mut().skip(4) {
        if let Item::Event(event) = item {
            event.cpu = Some(1);
        }
    }
    trace.items.push(Item::Lost(Lost {
        time: Some(Nanos(end)),
        cpu: Some(0),
        records: Some(1),
    }));
    assert!(begin < end);
    assert_eq!(last(&trace), Cause::RecordsLost);
}

#[test]
fn entries_made_ahead_are_no_faults_and_a_stop_is_from_exit_to_entry() {
    let mut trace = written();
    trace.vcpu(exit());
    trace.fault(6, 1, WRITABLE);
    trace.set(7, 1, READ_ONLY);
    trace.vcpu(Payload::KvmEntry(KvmEntry { pc: None }));
    trace.vcpu(exit());
    trace.vcpu(Payload::KvmEntry(KvmEntry { pc: None }));
    let (_, causes) = follow(&trace.items, &[slot()]);
    assert_eq!((causes.faults, causes.ahead, causes.pages), (2, 1, Some(2)));
    let stall = causes.causes[0].stall.unwrap();
    assert_eq!((stall.stops, stall.nanos, stall.longest), (1, 4000, 4000));
    assert_eq!(causes.vcpus[0].thread, "CPU 0/KVM 11");
    assert_eq!((causes.ranges[0].start, causes.ranges[0].faults), (0, 2));
}

/// A copy in the host invalidates the page that it is for, so that KVM gives up once.
#[test]
fn a_stall_has_the_tries_that_kvm_gave_up() {
    let mut trace = Trace::default();
    trace.begin();
    for (frame, is_answered) in [(5, false), (6, false), (6, true), (7, true)] {
        trace.vcpu(exit());
        trace.vcpu(Payload::KvmPageFault(KvmPageFault {
            address: frame << 12,
            error_code: 0,
        }));
        if is_answered {
            trace.set(frame, 1, WRITABLE);
        }
        trace.vcpu(Payload::KvmEntry(KvmEntry { pc: None }));
        trace.vcpu(exit());
        trace.vcpu(Payload::KvmEntry(KvmEntry { pc: None }));
    }
    let (_, causes) = follow(&trace.items, &[slot()]);
    let stall = causes.causes[0].stall.unwrap();
    assert_eq!((stall.stops, stall.nanos, stall.longest), (2, 8000, 5000));
}

#[test]
fn a_stall_of_absurd_times_does_not_overflow() {
    let mut trace = Trace::default();
    trace.begin();
    for is_answered in [false, true] {
        trace.time = 0;
        trace.vcpu(exit());
        trace.vcpu(Payload::KvmPageFault(KvmPageFault {
            address: 5 << 12,
            error_code: 0,
        }));
        if is_answered {
            trace.set(5, 1, WRITABLE);
        }
        trace.time = u64::MAX - 1000;
        trace.vcpu(Payload::KvmEntry(KvmEntry { pc: None }));
    }
    let (_, causes) = follow(&trace.items, &[slot()]);
    assert_eq!(causes.causes[0].stall.unwrap().nanos, u64::MAX);
}

/// With a TDP MMU, each change of an entry is recorded with its frame.
#[test]
fn zapped_entries_need_no_slots() {
    let changed = Trace::changed;
    let mut trace = written();
    trace.fault(1024, 2, WRITABLE | HUGE);
    trace.vmm(Trace::madvise(5, 1, 4));
    trace.vmm(Trace::unmap(5, 1));
    trace.vmm(changed(5, 1, WRITABLE, 0));
    trace.vmm(Payload::MemoryCallExit);
    trace.vmm(Trace::madvise(1030, 1, 4));
    trace.vmm(Trace::unmap(1030, 1));
    trace.vmm(changed(1024, 2, WRITABLE | HUGE, 0));
    trace.vmm(Payload::MemoryCallExit);
    trace.fault(5, 1, WRITABLE);
    trace.fault(1029, 1, WRITABLE);
    trace.fault(1030, 1, WRITABLE);
    let (fd, cmd, arg) = (3, ioctl::CLEAR_DIRTY_LOG, 0);
    trace.vmm(Payload::IoctlEnter { fd, cmd, arg });
    trace.vmm(changed(5, 1, WRITABLE, READ_ONLY));
    trace.vmm(Payload::IoctlExit { ret: 0 });
    trace.fault(5, 1, WRITABLE);
    let (found, causes) = follow(&trace.items, &[]);
    assert_eq!(causes.memory, Memory::ByFrame);
    let expected = [
        (5, Cause::Discarded),
        (1029, Cause::BesideDiscard),
        (1030, Cause::Discarded),
        (5, Cause::DirtyLog),
    ];
    assert_eq!(found[2..], expected);
}

#[test]
fn slots_are_read_and_refused() {
    let slot: Slot = "0x100000000=0x7f5b1ec00000:0x40000000".parse().unwrap();
    assert_eq!(slot.gpa, 1 << 32);
    for bad in [
        "",
        "0=0:0",
        "0x1000=0x1000",
        "1=0x1000:0x1000",
        "0=0xfffffffffffff000:0x2000",
    ] {
        assert!(
            bad.parse::<Slot>().unwrap_err().contains("GPA=HVA:SIZE"),
            "{bad}"
        );
    }
}

//! VMs of one process: told apart by descriptors, or taken as one and said to be.

use pagetoll_ftrace::tracepoint::{MemoryCall, Payload, SetSpte, SpteRequested};
use pagetoll_units::{Gfn, Hva};
use proptest::prelude::*;

use super::{BASE, Cause, Trace, VMM, WRITABLE, follow, ioctl, slot};
use crate::Causes;

impl Trace {
    fn answered(&mut self, thread: u32, fd: u32, cmd: u32, ret: i64) {
        self.on(VMM, thread, 10, Payload::IoctlEnter { fd, cmd, arg: 0 });
        self.on(VMM, thread, 10, Payload::IoctlExit { ret });
    }

    /// A VM and its vCPU, by their descriptors.
    fn vm(&mut self, vm: u32, vcpu: u32) {
        self.answered(10, 3, ioctl::CREATE_VM, vm.into());
        self.answered(10, vm, ioctl::CREATE_VCPU, vcpu.into());
    }

    fn run(&mut self, thread: u32, vcpu: u32) {
        let (fd, cmd, arg) = (vcpu, ioctl::RUN, 0);
        self.on("vcpu", thread, 10, Payload::IoctlEnter { fd, cmd, arg });
    }

    fn touch(&mut self, thread: u32, gfn: u64) {
        let gfn = Gfn(gfn);
        let request = SpteRequested { gfn, level: 1 };
        let set = SetSpte {
            gfn,
            level: 1,
            spte: WRITABLE,
        };
        self.on("vcpu", thread, 10, Payload::SpteRequested(request));
        self.on("vcpu", thread, 10, Payload::SetSpte(set));
    }

    fn leave(&mut self, thread: u32) {
        self.on("vcpu", thread, 10, Payload::IoctlExit { ret: 0 });
    }
}

fn causes(trace: &Trace) -> (Vec<Cause>, Causes) {
    let (found, causes) = follow(&trace.items, &[slot()]);
    (found.into_iter().map(|(_, cause)| cause).collect(), causes)
}

fn notes_on_vms(causes: &Causes) -> Vec<&str> {
    let notes = causes.notes.iter().map(String::as_str);
    notes.filter(|note| note.contains("VMs")).collect()
}

#[test]
fn a_second_vm_of_a_process_has_first_touches_of_its_own() {
    let mut trace = Trace::default();
    for thread in [11, 12] {
        // The descriptors of the first were closed: the second has the same.
        trace.vm(4, 5);
        trace.run(thread, 5);
        trace.touch(thread, 7);
        trace.touch(thread, 7);
        trace.leave(thread);
    }
    let (found, causes) = causes(&trace);
    let each = [Cause::FirstTouch, Cause::Unexplained];
    assert_eq!(found, [each, each].concat());
    assert_eq!((causes.pages, notes_on_vms(&causes)), (Some(2), vec![]));
    let vms: Vec<_> = causes.ranges.iter().map(|row| row.vm).collect();
    assert_eq!(vms, [Some(1), Some(2)]);
}

#[test]
fn a_thread_may_run_two_vms_in_turn() {
    let mut trace = Trace::default();
    trace.vm(4, 5);
    trace.vm(6, 7);
    for vcpu in [5, 7, 5, 7] {
        trace.run(11, vcpu);
        trace.touch(11, 9);
        trace.leave(11);
    }
    let (first, again) = (Cause::FirstTouch, Cause::Unexplained);
    assert_eq!(causes(&trace).0, [first, first, again, again]);
}

#[test]
fn the_dirty_log_is_that_of_its_descriptor() {
    let mut trace = Trace::default();
    for (vm, vcpu, thread) in [(4, 5, 11), (6, 7, 12)] {
        trace.vm(vm, vcpu);
        trace.run(thread, vcpu);
        trace.touch(thread, 9);
    }
    trace.answered(10, 6, ioctl::CLEAR_DIRTY_LOG, 0);
    trace.touch(11, 9);
    trace.touch(12, 9);
    assert_eq!(causes(&trace).0[2..], [Cause::Unexplained, Cause::DirtyLog]);
}

#[test]
fn a_vm_from_before_the_capture_is_one_of_its_own() {
    let mut trace = Trace::default();
    trace.run(11, 5);
    trace.touch(11, 9);
    trace.vm(6, 7);
    trace.run(12, 7);
    trace.touch(12, 9);
    trace.touch(11, 10);
    let expected = [Cause::FirstSeen, Cause::FirstTouch, Cause::FirstSeen];
    assert_eq!(causes(&trace).0, expected);
}

/// Where the calls on vCPUs are not recorded.
#[test]
fn vms_that_are_taken_as_one_are_said_to_be() {
    let mut trace = Trace::default();
    trace.begin();
    trace.touch(11, 7);
    trace.call(Trace::madvise(7, 1, 4), &[(7, 1)]);
    trace.begin();
    trace.touch(12, 7);
    trace.touch(12, 8);
    trace.call(Trace::madvise(7, 1, 4), &[(7, 1)]);
    trace.touch(12, 7);
    let (found, causes) = causes(&trace);
    let unexplained = [Cause::Unexplained; 2];
    assert_eq!(found[..1], [Cause::FirstTouch]);
    assert_eq!(found[1..3], unexplained);
    assert_eq!(found[3..], [Cause::Discarded]);
    let [note] = notes_on_vms(&causes).try_into().unwrap();
    assert!(
        note.starts_with("process 10 has 2 VMs, which are taken as one: "),
        "{note}"
    );
}

/// KVM asks for a VM again where a signal came.
#[test]
fn a_call_that_failed_made_no_vm() {
    let mut trace = Trace::default();
    trace.answered(10, 3, ioctl::CREATE_VM, -4);
    trace.vm(4, 5);
    trace.touch(11, 7);
    let (found, causes) = causes(&trace);
    assert_eq!(found, [Cause::FirstTouch]);
    assert_eq!(notes_on_vms(&causes), Vec::<&str>::new());
}

/// Step of two VMs in one process.
#[derive(Clone, Copy, Debug)]
enum Step {
    Touch {
        vm: usize,
        page: usize,
    },
    Discard {
        vm: usize,
        page: usize,
    },
    Log {
        vm: usize,
    },
    /// The VM's descriptors are closed, and another has them.
    Again {
        vm: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (vm, page) = (0_usize..2, 0..PAGES);
    prop_oneof![
        6 => (vm.clone(), page.clone()).prop_map(|(vm, page)| Step::Touch { vm, page }),
        2 => (vm.clone(), page).prop_map(|(vm, page)| Step::Discard { vm, page }),
        1 => vm.clone().prop_map(|vm| Step::Log { vm }),
        1 => vm.prop_map(|vm| Step::Again { vm }),
    ]
}

proptest! {
    /// Each VM of a process has the causes that it has alone.
    #[test]
    fn vms_of_a_process_do_not_mix(steps in prop::collection::vec(step(), 1..40)) {
        let mut trace = Trace::default();
        let mut pages = [[Cause::FirstTouch; PAGES]; 2];
        let mut expected = Vec::new();
        (0..2).for_each(|vm| start(&mut trace, vm));
        for step in steps {
            match step {
                Step::Touch { vm, page } => {
                    expected.push(std::mem::replace(&mut pages[vm][page], Cause::Unexplained));
                    trace.touch(DESCRIPTORS[vm].2, page.try_into().unwrap());
                }
                Step::Discard { vm, page } => {
                    discard(&mut trace, vm, page);
                    let page = &mut pages[vm][page];
                    *page = if *page == Cause::FirstTouch { *page } else { Cause::Discarded };
                }
                Step::Log { vm } => {
                    trace.answered(10, DESCRIPTORS[vm].0, ioctl::CLEAR_DIRTY_LOG, 0);
                    let live = pages[vm].iter_mut().filter(|page| **page == Cause::Unexplained);
                    live.for_each(|page| *page = Cause::DirtyLog);
                }
                Step::Again { vm } => {
                    trace.leave(DESCRIPTORS[vm].2);
                    start(&mut trace, vm);
                    pages[vm] = [Cause::FirstTouch; PAGES];
                }
            }
        }
        let (found, _) = follow(&trace.items, &[]);
        let found = found.into_iter().filter(|(page, _)| *page < COPIED);
        let found: Vec<_> = found.map(|(_, cause)| cause).collect();
        prop_assert_eq!(found, expected);
    }
}

/// Pages of each VM, and the first of those that say where its memory is.
const PAGES: usize = 6;
const COPIED: u64 = 100;
/// Descriptors of a VM and of its vCPU, and the vCPU's thread, for each VM.
const DESCRIPTORS: [(u32, u32, u32); 2] = [(4, 5, 11), (6, 7, 12)];

fn address(vm: usize, page: u64) -> u64 {
    BASE + (u64::try_from(vm).unwrap() << 40) + page * 4096
}

/// An invalidation, which KVM records once for each VM of the process.
fn unmap(trace: &mut Trace, thread: u32, address: u64) {
    for _vm in DESCRIPTORS {
        let (start, end) = (Hva(address), Hva(address + 4096));
        trace.on(VMM, thread, 10, Payload::KvmUnmapHvaRange { start, end });
    }
}

/// A VM begins, and runs; some of its pages are copied when they are first written.
fn start(trace: &mut Trace, vm: usize) {
    let (descriptor, vcpu, thread) = DESCRIPTORS[vm];
    trace.vm(descriptor, vcpu);
    trace.run(thread, vcpu);
    for page in COPIED..COPIED + 12 {
        unmap(trace, thread, address(vm, page));
        trace.touch(thread, page);
    }
}

fn discard(trace: &mut Trace, vm: usize, page: usize) {
    let address = address(vm, page.try_into().unwrap());
    let call = MemoryCall::Madvise {
        start: address,
        length: 4096,
        advice: 4,
    };
    trace.vmm(Payload::MemoryCall(call));
    unmap(trace, 10, address);
    trace.vmm(Payload::MemoryCallExit);
}

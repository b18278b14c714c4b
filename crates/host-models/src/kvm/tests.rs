//! The model against what a real kernel answered, against itself, and against a naive oracle.

use std::collections::BTreeSet;

use pagetoll_conformance::kvm::{all, describe, recorded};
use pagetoll_units::{Gfn, Gpa, Hva};
use proptest::prelude::*;

use super::{Capabilities, Exit, Processor, Region, SlotFlags, Vcpu, Vm, run};
use crate::Errno;
use crate::mm::{Access, Backing, Mm, Modes, PAGE_SIZE, Permission, Vma};
use crate::userfaultfd::{Features, OpenFlags, Range, ThreadId};

#[test]
fn the_model_answers_as_the_real_kernel_did() {
    let mut compared = 0;
    for case in all().unwrap() {
        let answers = describe(&case, &run(&case, Processor::X86_64));
        if let Some(recorded) = recorded(&case.name) {
            assert_eq!(answers, recorded, "{}", case.name);
            compared += 1;
        }
    }
    assert!(compared >= 140, "only {compared} cases are recorded");
}

fn answers(name: &str) -> Vec<String> {
    answers_on(Processor::X86_64, name)
}

fn answers_on(processor: Processor, name: &str) -> Vec<String> {
    let cases = all().unwrap();
    let case = cases.iter().find(|case| case.name == name).unwrap();
    describe(case, &run(case, processor))
}

/// The lab's kernels for arm64 answer so, from 6.1 to 7.3.
#[test]
fn arm64_has_more_slots_fewer_addresses_and_logs_no_reads() {
    let arm64 = |name| answers_on(Processor::Arm64, name);
    assert_eq!(arm64("slot-number"), ["ok", "ok", "EINVAL", "EINVAL"]);
    assert_eq!(arm64("slot-wraps"), ["EINVAL", "EFAULT"]);
    let reads = arm64("dirty-log-read");
    assert_eq!(reads[reads.len() - 2..], ["none dirty", "none dirty"]);
    assert_eq!(arm64("dirty-log-absent")[1], "ENOENT");
    let differ = all()
        .unwrap()
        .into_iter()
        .filter(|case| run(case, Processor::Arm64) != run(case, Processor::X86_64));
    let differ: Vec<_> = differ.map(|case| case.name).collect();
    assert_eq!(
        differ,
        [
            "slot-wraps",
            "slot-number",
            "dirty-log-read",
            "dirty-log-absent"
        ]
    );
}

/// Linux 7.3 answers so; those that were recorded are 6.18's.
#[test]
fn a_page_of_a_guest_memfd_that_is_taken_exists_since_7_2() {
    assert_eq!(answers("slot-guest-memfd-shared")[2], "EINVAL");
    assert_eq!(answers("slot-guest-memfd-shared-exists")[2], "EEXIST");
}

/// No kernel has merged it, so that no answers are recorded: these are the exit-on-missing series'.
#[test]
fn exits_on_missing_have_the_address_and_leave_the_queue_empty() {
    let exits = answers("exit-on-missing");
    assert_eq!(
        exits[4..8],
        [
            "EFAULT, memory fault 0x100001000 size 0x1000 flags 0x1",
            "nothing",
            "0x1000 bytes",
            "b[1]"
        ]
    );
    assert_eq!(
        exits[8],
        "EFAULT, memory fault 0x100000000 size 0x1000 flags 0x2"
    );
    assert_eq!(exits.last().unwrap(), "0x5|b[0] b[1]");
    let beside = answers("exit-on-missing-beside-userfaultfd");
    assert_eq!(beside[5], "sleeps; 1 wait, 1 unread");
    let refused = answers("slot-exit-on-missing");
    assert_eq!(refused, ["EINVAL", "ok", "ok"]);
}

const GPA: u64 = 1 << 32;
const HVA: u64 = 1 << 34;

fn region(slot: u32, first: u64, pages: u64) -> Region {
    Region {
        slot,
        flags: SlotFlags::default(),
        guest_phys_addr: Gpa(GPA + first * PAGE_SIZE),
        memory_size: pages * PAGE_SIZE,
        userspace_addr: Hva(HVA),
    }
}

#[test]
fn without_a_slot_nothing_of_the_process_is_touched() {
    let (mut vm, mut mm) = (Vm::new(Capabilities::default()), Mm::new());
    let mut vcpu = Vcpu::new(ThreadId(0));
    assert_eq!(vcpu.run(&mut vm, &mut mm, 0), None);
    vcpu.begin(Gpa(GPA), Access::Write(7));
    let exit = vcpu.run(&mut vm, &mut mm, 0);
    assert_eq!(exit, Some(Exit::MmioWrite(Gpa(GPA), 7)));
    assert_eq!(vcpu.run(&mut vm, &mut mm, 0), Some(Exit::Done(7)));
}

#[test]
fn a_vcpu_that_sleeps_goes_on_when_its_page_is_there() {
    let (mut vm, mut mm) = (Vm::new(Capabilities::default()), Mm::new());
    mm.map(Vma {
        start: Hva(HVA),
        end: Hva(HVA + PAGE_SIZE),
        backing: Backing::Anonymous,
        permission: Permission::ReadWrite,
        registration: None,
    });
    let uffd = mm.userfaultfd(OpenFlags::default());
    mm.uffdio_api(uffd, 0xaa, Features::default()).unwrap();
    let range = Range {
        start: Hva(HVA),
        len: PAGE_SIZE,
    };
    mm.uffdio_register(uffd, range, Modes::MISSING).unwrap();
    vm.set_user_memory_region(region(1, 0, 1), None).unwrap();
    let mut vcpu = Vcpu::new(ThreadId(5));
    vcpu.begin(Gpa(GPA), Access::Read);
    assert_eq!(vcpu.run(&mut vm, &mut mm, 0), Some(Exit::Sleeps));
    assert_eq!(mm.queues(uffd).unwrap().pending(), 1);
    let woken = mm.uffdio_unregister(uffd, range).unwrap();
    assert_eq!(woken, [ThreadId(5)]);
    assert_eq!(vcpu.run(&mut vm, &mut mm, 0), Some(Exit::Done(0)));
}

/// Slots as sets of frames.
#[derive(Clone, Debug, Default)]
struct Oracle(Vec<(u32, BTreeSet<u64>)>);

impl Oracle {
    fn set(&mut self, slot: u32, first: u64, pages: u64) -> Result<(), Errno> {
        let frames: BTreeSet<u64> = (first..first + pages).collect();
        let old = self.0.iter().position(|(other, _)| *other == slot);
        let size = old.map(|at| self.0[at].1.len());
        match (size, frames.len()) {
            (None, 0) => return Err(Errno::Inval),
            (Some(_), 0) => {
                self.0.retain(|(other, _)| *other != slot);
                return Ok(());
            }
            (Some(before), now) if before != now => return Err(Errno::Inval),
            _ => {}
        }
        let taken =
            |(other, theirs): &(u32, BTreeSet<u64>)| *other != slot && !theirs.is_disjoint(&frames);
        if self.0.iter().any(taken) {
            return Err(Errno::Exist);
        }
        self.0.retain(|(other, _)| *other != slot);
        self.0.push((slot, frames));
        Ok(())
    }

    fn slot(&self, frame: u64) -> Option<u32> {
        let found = self.0.iter().find(|(_, frames)| frames.contains(&frame));
        found.map(|(slot, _)| *slot)
    }
}

proptest! {
    #[test]
    fn slots_hold_what_sets_of_frames_hold(
        calls in proptest::collection::vec((0_u32..4, 0_u64..12, 0_u64..5), 1..60)
    ) {
        let (mut vm, mut oracle) = (Vm::new(Capabilities::default()), Oracle::default());
        for (slot, first, pages) in calls {
            let expected = oracle.set(slot, first, pages);
            prop_assert_eq!(vm.set_user_memory_region(region(slot, first, pages), None), expected);
            for frame in 0..16 {
                let found = vm.slot(Gfn(GPA / PAGE_SIZE + frame)).map(|(slot, _)| slot);
                prop_assert_eq!(found, oracle.slot(frame));
            }
        }
    }
}

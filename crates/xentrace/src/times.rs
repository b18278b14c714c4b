//! Time of vcpus in each runstate, and out of their guests, in cycles of the time-stamp counter.
//!
//! A runstate lasts from the record that begins it to the one that ends it; an exit, until the vcpu's next
//! entry, blocked in between or not. What begins before a trace or ends after it is not counted, nor is what ends before it began:
//! clocks of CPUs may disagree. A vcpu's runstates are recorded by whichever CPU changes them, and CPUs alternate by window:
//! changes are put in order of time first.
//!
//! Source: `sched_runstate_process`, `runstate_update` and `hvm_close_vmexit` of `tools/xentrace/xenalyze.c`, Xen 4.17.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{ExitReason, MAX_OWNERS, Owner, Runstate, Vcpu};

/// Changes of runstates that are kept until they are in order. Assumed to exceed those in the windows of all CPUs between two
/// of one; it bounds memory to 2 MiB.
const MOST_KEPT: usize = 65_536;

/// So many times, and for so long all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spell {
    /// Occurrences.
    pub count: u64,
    /// Cycles of the time-stamp counter.
    pub cycles: u64,
}

impl Spell {
    /// Time stamps of a damaged trace may be any number.
    fn add(&mut self, cycles: u64) {
        self.count += 1;
        self.cycles = self.cycles.saturating_add(cycles);
    }
}

/// Time of vcpus, by runstate and by exit.
#[derive(Clone, Debug, Default)]
pub struct Times {
    changes: BinaryHeap<Reverse<Change>>,
    runstates: Runstates,
    /// Exits that have not ended yet.
    outside: BTreeMap<Owner, (ExitReason, u64)>,
    exits: BTreeMap<(Owner, ExitReason), Spell>,
}

/// A runstate begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    tsc: u64,
    vcpu: Vcpu,
    old: Runstate,
    new: Runstate,
}

/// A vcpu's last change, in order of time.
#[derive(Clone, Debug, Default)]
struct Runstates {
    current: BTreeMap<Vcpu, (Runstate, u64)>,
    spells: BTreeMap<(Owner, Runstate), Spell>,
}

impl Runstates {
    /// More vcpus than can be real are not followed: the summary refuses their trace, or they have no other record.
    fn take(&mut self, change: Change) {
        let Change {
            tsc,
            vcpu,
            old,
            new,
        } = change;
        if self.current.len() >= MAX_OWNERS && !self.current.contains_key(&vcpu) {
            return;
        }
        let before = self.current.insert(vcpu, (new, tsc));
        let Some((state, since)) = before else { return };
        if let (true, Some(cycles)) = (state == old, tsc.checked_sub(since)) {
            let key = (Owner::Vcpu(vcpu), state);
            self.spells.entry(key).or_default().add(cycles);
        }
    }
}

impl Times {
    /// Time of each vcpu in each runstate.
    #[must_use]
    pub fn runstates(&self) -> BTreeMap<(Owner, Runstate), Spell> {
        let mut runstates = self.runstates.clone();
        let mut changes: Vec<_> = self.changes.iter().map(|Reverse(change)| *change).collect();
        changes.sort_unstable();
        changes
            .into_iter()
            .for_each(|change| runstates.take(change));
        runstates.spells
    }

    /// Exits of each, by reason, in order.
    pub fn exits(&self) -> impl Iterator<Item = (Owner, ExitReason, Spell)> {
        let spells = self.exits.iter();
        spells.map(|((owner, reason), spell)| (*owner, *reason, *spell))
    }

    pub(super) fn changes(&mut self, vcpu: Vcpu, old: Runstate, new: Runstate, tsc: u64) {
        let change = Change {
            tsc,
            vcpu,
            old,
            new,
        };
        self.changes.push(Reverse(change));
        if self.changes.len() > MOST_KEPT
            && let Some(Reverse(oldest)) = self.changes.pop()
        {
            self.runstates.take(oldest);
        }
    }

    pub(super) fn leaves(&mut self, owner: Owner, reason: ExitReason, tsc: u64) {
        if self.outside.len() < MAX_OWNERS || self.outside.contains_key(&owner) {
            self.outside.insert(owner, (reason, tsc));
        }
    }

    /// Reasons are numbers of 32 bits, so that a hostile trace has as many as records; real ones are below 2048.
    pub(super) fn enters(&mut self, owner: Owner, tsc: u64) {
        let Some((reason, since)) = self.outside.remove(&owner) else {
            return;
        };
        let key = (owner, reason);
        if self.exits.len() >= MAX_OWNERS && !self.exits.contains_key(&key) {
            return;
        }
        if let Some(cycles) = tsc.checked_sub(since) {
            self.exits.entry(key).or_default().add(cycles);
        }
    }

    /// An entry may be among records that were lost.
    pub(super) fn forgets(&mut self, owner: Owner) {
        self.outside.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VCPU: Vcpu = Vcpu { domain: 1, vcpu: 0 };
    const OWNER: Owner = Owner::Vcpu(VCPU);

    #[test]
    fn changes_are_put_in_order_of_time_before_they_are_counted() {
        let mut times = Times::default();
        times.changes(VCPU, Runstate::Running, Runstate::Blocked, 100);
        times.changes(VCPU, Runstate::Runnable, Runstate::Running, 40);
        times.changes(VCPU, Runstate::Blocked, Runstate::Runnable, 170);
        let expected = [
            (
                (OWNER, Runstate::Running),
                Spell {
                    count: 1,
                    cycles: 60,
                },
            ),
            (
                (OWNER, Runstate::Blocked),
                Spell {
                    count: 1,
                    cycles: 70,
                },
            ),
        ];
        assert_eq!(times.runstates(), expected.into());
    }

    #[test]
    fn an_exit_without_an_entry_and_a_clock_that_jumps_back_count_nothing() {
        let mut times = Times::default();
        let reason = ExitReason::Vmx(12);
        times.leaves(OWNER, reason, 50);
        times.enters(OWNER, 40);
        times.leaves(OWNER, reason, 50);
        times.forgets(OWNER);
        times.enters(OWNER, 60);
        assert_eq!(times.exits().count(), 0);
    }

    #[test]
    fn times_of_a_damaged_trace_do_not_overflow() {
        let mut times = Times::default();
        for _ in 0..3 {
            times.leaves(OWNER, ExitReason::Svm(0x78), 0);
            times.enters(OWNER, u64::MAX);
        }
        let (_, _, spell) = times.exits().next().unwrap();
        assert_eq!((spell.count, spell.cycles), (3, u64::MAX));
    }
}

//! Time of vcpus in each runstate, and out of their guests, in cycles of the time-stamp counter.
//!
//! A runstate lasts from the record that begins it to the one that ends it; an exit, until the vcpu's next entry, blocked in
//! between or not, on whichever CPU. Records of a vcpu are in the order of their time for that, see [`order`](super::order).
//! A runstate that begins before a trace or ends after it is not counted; an exit that has no end in it is, without a time.
//!
//! Lost records end what may have gone on among them: what a vcpu does on its CPU, if that CPU lost some; and what it does
//! off the CPUs, such as to wait, if any CPU did, for that one may have run it. xenalyze does the same (`lose_vcpu`). A CPU
//! says what it lost with its next record: times that were told meanwhile are taken back. A CPU that lost records and then
//! recorded nothing to the end of the trace says nothing.
//!
//! Source: `sched_runstate_process`, `runstate_update`, `hvm_close_vmexit` and `process_lost_records` of
//! `tools/xentrace/xenalyze.c`, Xen 4.17.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::order::{Event, Kind, Order};
use super::{ExitReason, MAX_OWNERS, Owner, Pcpu, Runstate, Vcpu};

/// Times that may be taken back: 3 MiB. Assumed to exceed those that are told before a CPU says that it lost records.
const MOST_TOLD: usize = 1 << 16;

/// Times that are looked at to take some back, in all; and steps back of clocks that are followed. Assumed to exceed those
/// of any real trace.
const MOST_DOUBTED: usize = 256 * MOST_TOLD;
const MOST_STEPS: u64 = 4096;

/// Occurrences, and for how long all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spell {
    /// Occurrences.
    pub count: u64,
    /// Occurrences whose begin and end are in the trace.
    pub timed: u64,
    /// Cycles of the time-stamp counter that these took.
    pub cycles: u64,
}

impl Spell {
    /// Adds one that took so long. Time stamps of a damaged trace may be any number.
    fn add(&mut self, cycles: u64) {
        self.count += 1;
        self.ends(cycles);
    }

    fn ends(&mut self, cycles: u64) {
        self.timed += 1;
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// Takes a time back.
    const fn retract(&mut self, cycles: u64) {
        self.timed = self.timed.saturating_sub(1);
        self.cycles = self.cycles.saturating_sub(cycles);
    }
}

/// Time of vcpus, by runstate and by exit.
#[derive(Clone, Debug, Default)]
pub struct Times {
    runstates: BTreeMap<(Owner, Runstate), Spell>,
    exits: BTreeMap<(Owner, ExitReason), Spell>,
    disordered: u64,
}

impl Times {
    /// Time of each vcpu in each runstate, in order.
    pub fn runstates(&self) -> impl Iterator<Item = (Owner, Runstate, Spell)> {
        let spells = self.runstates.iter();
        spells.map(|((owner, state), spell)| (*owner, *state, *spell))
    }

    /// Exits of each, by reason, in order.
    pub fn exits(&self) -> impl Iterator<Item = (Owner, ExitReason, Spell)> {
        let spells = self.exits.iter();
        spells.map(|((owner, reason), spell)| (*owner, *reason, *spell))
    }

    /// Records that come after one of a later time though xentrace does not write them so, losses that are told too late to
    /// take back what they make doubtful, and times that a CPU's clock went back.
    #[must_use]
    pub const fn disordered(&self) -> u64 {
        self.disordered
    }
}

/// Stay of a vcpu on a CPU, as far as its exits go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stay {
    /// An exit that has not ended, and when it was.
    open: Option<(ExitReason, u64)>,
    /// An exit or an entry was recorded: what was open before it is not any more.
    is_known: bool,
    /// Last time stamp of the CPU.
    last: u64,
}

impl Stay {
    /// Takes in a time stamp; false if it is before the last one. A CPU's counter does not go back in a trace: another one
    /// follows, or another boot.
    #[inline]
    pub(super) fn advance(&mut self, tsc: u64) -> bool {
        let last = std::mem::replace(&mut self.last, tsc);
        last <= tsc
    }
}

/// Who a record is of, and who recorded it when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) owner: Owner,
    pub(super) cpu: Pcpu,
    pub(super) tsc: Option<u64>,
}

/// Measurement of the times of a trace. What begins and ends within a stay on one CPU is measured there; the rest, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    order: Order,
    vcpus: Vcpus,
    exits: Exits,
    steps_back: u64,
}

/// Exits by reason. Reasons are numbers of 32 bits, so that a hostile trace has as many as records; real ones are below 2048.
#[derive(Clone, Debug, Default)]
struct Exits(FxHashMap<(Owner, ExitReason), Spell>);

impl Exits {
    fn spell(&mut self, owner: Owner, reason: ExitReason) -> Option<&mut Spell> {
        let key = (owner, reason);
        let has_room = self.0.len() < MAX_OWNERS || self.0.contains_key(&key);
        has_room.then(|| self.0.entry(key).or_default())
    }

    fn add(&mut self, owner: Owner, reason: ExitReason, cycles: u64) {
        if let Some(spell) = self.spell(owner, reason) {
            spell.add(cycles);
        }
    }

    /// Counts one whose end is not known, or not yet.
    fn count(&mut self, owner: Owner, reason: ExitReason) {
        if let Some(spell) = self.spell(owner, reason) {
            spell.count += 1;
        }
    }

    fn counted(&mut self, vcpu: Vcpu, reason: ExitReason) -> Option<&mut Spell> {
        self.0.get_mut(&(Owner::Vcpu(vcpu), reason))
    }
}

/// Vcpus, at the time up to which records are in order.
#[derive(Clone, Debug, Default)]
struct Vcpus {
    states: FxHashMap<Vcpu, VcpuState>,
    /// Until when records were lost: at last, and by each CPU.
    lost: Option<u64>,
    lost_by: BTreeMap<Pcpu, u64>,
    /// Times of what vcpus did off the CPUs, by their ends, and the last end of those that are not kept any more.
    told: VecDeque<Told>,
    settled: Option<u64>,
    /// Losses of before that.
    told_late: u64,
    doubted: usize,
}

/// A time of what a vcpu did off the CPUs: it is wrong if any CPU lost records meanwhile.
#[derive(Clone, Copy, Debug)]
struct Told {
    vcpu: Vcpu,
    of: Of,
    begin: u64,
    end: u64,
    cycles: u64,
}

/// Subject of a time.
#[derive(Clone, Copy, Debug)]
enum Of {
    Exit(ExitReason),
    Runstate(Runstate),
}

/// A vcpu.
#[derive(Clone, Copy, Debug, Default)]
struct VcpuState {
    current: Option<(Runstate, Pcpu, u64)>,
    /// Its exit that has not ended though it left its CPU, and when both were.
    away: Option<(ExitReason, u64, u64)>,
    /// By [`Runstate`].
    runstates: [Spell; 4],
}

impl Vcpus {
    /// More vcpus than can be real are not followed: the summary refuses their trace, or they have no other record.
    fn take(&mut self, event: Event, exits: &mut Exits) {
        let Event { tsc, vcpu, kind } = event;
        if let Kind::Lose { cpu, until } = kind {
            self.lost = self.lost.max(Some(until));
            let lost = self.lost_by.entry(cpu).or_default();
            *lost = until.max(*lost);
            self.retract(tsc, until, exits);
        }
        if self.states.len() >= MAX_OWNERS && !self.states.contains_key(&vcpu) {
            return;
        }
        match kind {
            Kind::Runstate { old, new, cpu } => self.change(vcpu, old, (new, cpu, tsc)),
            Kind::Leave { reason, exit } => self.state(vcpu).away = Some((reason, exit, tsc)),
            Kind::Forget => self.state(vcpu).away = None,
            Kind::Enter => self.enter(vcpu, tsc, exits),
            Kind::Lose { .. } => {
                let away = &mut self.state(vcpu).away;
                away.take_if(|(_, _, left)| *left <= tsc);
            }
        }
    }

    fn enter(&mut self, vcpu: Vcpu, tsc: u64, exits: &mut Exits) {
        let Some((reason, exit, left)) = self.state(vcpu).away.take() else {
            return;
        };
        let cycles = tsc.checked_sub(exit).filter(|_| self.lost < Some(left));
        if let (Some(cycles), Some(spell)) = (cycles, exits.counted(vcpu, reason)) {
            spell.ends(cycles);
            let of = Of::Exit(reason);
            self.tell(Told {
                vcpu,
                of,
                begin: left,
                end: tsc,
                cycles,
            });
        }
    }

    fn change(&mut self, vcpu: Vcpu, old: Runstate, new: (Runstate, Pcpu, u64)) {
        let Some((state, cpu, begin)) = self.state(vcpu).current.replace(new) else {
            return;
        };
        let lost = match state {
            Runstate::Running => self.lost_by.get(&cpu).copied(),
            _ => self.lost,
        };
        // A CPU records who leaves it: where another one does, the vcpu moved among lost records.
        let (_, by, end) = new;
        let stayed = state != Runstate::Running || by == cpu;
        let is_whole = state == old && stayed && lost < Some(begin);
        if let (true, Some(cycles)) = (is_whole, end.checked_sub(begin)) {
            self.state(vcpu).runstates[state as usize].add(cycles);
            if state != Runstate::Running {
                let of = Of::Runstate(state);
                self.tell(Told {
                    vcpu,
                    of,
                    begin,
                    end,
                    cycles,
                });
            }
        }
    }

    fn tell(&mut self, told: Told) {
        if self.told.len() >= MOST_TOLD {
            let settled = self.told.pop_front().map(|told| told.end);
            self.settled = self.settled.max(settled);
        }
        self.told.push_back(told);
    }

    /// Takes back the times that a loss makes doubtful. Those that are kept are in the order of their ends.
    fn retract(&mut self, first: u64, until: u64, exits: &mut Exits) {
        let after = self.told.partition_point(|told| told.end < first);
        self.doubted = self.doubted.saturating_add(self.told.len() - after);
        let is_late = self.settled >= Some(first) || self.doubted > MOST_DOUBTED;
        self.told_late += u64::from(is_late);
        if self.doubted > MOST_DOUBTED {
            return;
        }
        let doubtful = |told: &Told| told.begin <= until;
        let told: Vec<_> = self.told.drain(after..).collect();
        for told in told {
            if !doubtful(&told) {
                self.told.push_back(told);
                continue;
            }
            match told.of {
                Of::Exit(reason) => {
                    if let Some(spell) = exits.counted(told.vcpu, reason) {
                        spell.retract(told.cycles);
                    }
                }
                Of::Runstate(state) => {
                    let spell = &mut self.state(told.vcpu).runstates[state as usize];
                    spell.count -= 1;
                    spell.retract(told.cycles);
                }
            }
        }
    }

    fn state(&mut self, vcpu: Vcpu) -> &mut VcpuState {
        self.states.entry(vcpu).or_default()
    }

    /// Forgets what has not ended, and what was lost, where another time begins.
    fn end(&mut self) {
        for state in self.states.values_mut() {
            (state.current, state.away) = (None, None);
        }
        self.lost = None;
        self.lost_by.clear();
        self.told.clear();
        self.settled = None;
    }
}

impl Measurement {
    /// Ends all that is open: what follows is of another time.
    #[cold]
    pub(super) fn end(&mut self, stays: impl Iterator<Item = (Owner, Stay)>) {
        self.steps_back += 1;
        if self.steps_back <= MOST_STEPS {
            self.finish(stays);
        }
    }

    fn finish(&mut self, stays: impl Iterator<Item = (Owner, Stay)>) {
        for (owner, stay) in stays {
            self.interrupt(owner, stay);
        }
        let Self { vcpus, exits, .. } = self;
        self.order.end(|event| vcpus.take(event, exits));
        self.vcpus.end();
    }

    /// Counts the exit that has not ended.
    fn interrupt(&mut self, owner: Owner, stay: Stay) {
        if let Some((reason, _)) = stay.open {
            self.exits.count(owner, reason);
        }
    }

    pub(super) fn change(&mut self, stamp: Stamp, vcpu: Vcpu, old: Runstate, new: Runstate) {
        if let Some(tsc) = stamp.tsc {
            let cpu = stamp.cpu;
            let kind = Kind::Runstate { old, new, cpu };
            self.push(cpu, Event { tsc, vcpu, kind });
        }
    }

    /// An exit without a time stamp is counted, and ends the one before.
    #[inline]
    pub(super) fn exit(&mut self, stamp: Stamp, stay: &mut Stay, reason: ExitReason) {
        let owner = stamp.owner;
        self.interrupt(owner, *stay);
        self.begin(stamp, stay, Kind::Forget);
        stay.open = stamp.tsc.map(|tsc| (reason, tsc));
        if stamp.tsc.is_none() {
            self.exits.count(owner, reason);
        }
    }

    /// An entry without a time stamp ends what is open, without a time.
    #[inline]
    pub(super) fn enter(&mut self, stamp: Stamp, stay: &mut Stay) {
        match (stay.open.take(), stamp.tsc) {
            (Some((reason, exit)), Some(tsc)) => {
                self.exits
                    .add(stamp.owner, reason, tsc.saturating_sub(exit));
            }
            (Some((reason, _)), None) => self.exits.count(stamp.owner, reason),
            (None, Some(_)) => self.begin(stamp, stay, Kind::Enter),
            (None, None) => self.begin(stamp, stay, Kind::Forget),
        }
    }

    /// Takes in the first exit or entry of a stay, which ends what the vcpu has left open elsewhere.
    #[inline]
    fn begin(&mut self, stamp: Stamp, stay: &mut Stay, kind: Kind) {
        let is_known = std::mem::replace(&mut stay.is_known, true);
        if let (false, Owner::Vcpu(vcpu)) = (is_known, stamp.owner) {
            let tsc = stamp.tsc.unwrap_or(stay.last);
            self.push(stamp.cpu, Event { tsc, vcpu, kind });
        }
    }

    /// Another one takes the CPU.
    pub(super) fn leave(&mut self, stamp: Stamp, stay: &mut Stay) {
        self.interrupt(stamp.owner, *stay);
        if let (Some((reason, exit)), Owner::Vcpu(vcpu)) = (stay.open, stamp.owner) {
            let tsc = stamp.tsc.unwrap_or(stay.last);
            let kind = Kind::Leave { reason, exit };
            self.push(stamp.cpu, Event { tsc, vcpu, kind });
        }
        (stay.open, stay.is_known) = (None, false);
    }

    /// The CPU lost records from `first` on, while the owner ran and maybe others; `running` runs after it.
    pub(super) fn lose(&mut self, stamp: Stamp, stay: &mut Stay, first: u64, running: Vcpu) {
        let Stamp { owner, cpu, tsc } = stamp;
        self.interrupt(owner, *stay);
        (stay.open, stay.is_known) = (None, false);
        let until = tsc.unwrap_or(first);
        let vcpu = match owner {
            Owner::Vcpu(vcpu) => vcpu,
            _ => running,
        };
        let (tsc, kind) = (first, Kind::Lose { cpu, until });
        self.push(cpu, Event { tsc, vcpu, kind });
    }

    fn push(&mut self, cpu: Pcpu, event: Event) {
        let Self {
            order,
            vcpus,
            exits,
            ..
        } = self;
        order.push(cpu, event, |event| vcpus.take(event, exits));
    }

    /// The times so far, with what has not ended on the CPUs.
    pub(super) fn times(&self, stays: impl Iterator<Item = (Owner, Stay)>) -> Times {
        let mut all = self.clone();
        all.finish(stays);
        let disordered = all.order.late() + all.vcpus.told_late + self.steps_back;
        let mut runstates = BTreeMap::new();
        for (vcpu, state) in all.vcpus.states {
            let by_name = Runstate::ALL.into_iter().zip(state.runstates);
            let counted = by_name.filter(|(_, spell)| spell.count > 0);
            runstates.extend(counted.map(|(name, spell)| ((Owner::Vcpu(vcpu), name), spell)));
        }
        Times {
            runstates,
            exits: all.exits.0.into_iter().collect(),
            disordered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VCPU: Vcpu = Vcpu { domain: 1, vcpu: 0 };
    const HLT: ExitReason = ExitReason::Vmx(12);

    fn stamp(cpu: u32, tsc: u64) -> Stamp {
        Stamp {
            owner: Owner::Vcpu(VCPU),
            cpu: Pcpu(cpu),
            tsc: Some(tsc),
        }
    }

    fn untimed(cpu: u32) -> Stamp {
        Stamp {
            tsc: None,
            ..stamp(cpu, 0)
        }
    }

    fn spells(measurement: &Measurement) -> Vec<(u64, u64, u64)> {
        let times = measurement.times(std::iter::empty());
        let spells = times.exits().map(|(_, _, spell)| spell);
        spells
            .map(|spell| (spell.count, spell.timed, spell.cycles))
            .collect()
    }

    #[test]
    fn an_exit_lasts_until_the_entry_on_another_cpu_though_that_is_written_first() {
        let (mut measurement, mut stays) = (Measurement::default(), [Stay::default(); 2]);
        measurement.enter(stamp(0, 900), &mut stays[0]);
        measurement.exit(stamp(1, 100), &mut stays[1], HLT);
        measurement.leave(stamp(1, 110), &mut stays[1]);
        assert_eq!(spells(&measurement), [(1, 1, 800)]);
    }

    #[test]
    fn lost_records_end_exits_off_their_cpu_and_runstates() {
        for (lost_from, lost_to, timed) in [(50, 90, 1), (50, 120, 0), (500, 600, 0), (950, 960, 1)]
        {
            let (mut measurement, mut stays) = (Measurement::default(), [Stay::default(); 3]);
            let change = |measurement: &mut Measurement, tsc, old, new| {
                measurement.change(stamp(0, tsc), VCPU, old, new);
            };
            measurement.exit(stamp(0, 100), &mut stays[0], HLT);
            change(&mut measurement, 110, Runstate::Running, Runstate::Blocked);
            measurement.leave(stamp(0, 110), &mut stays[0]);
            change(&mut measurement, 880, Runstate::Blocked, Runstate::Runnable);
            measurement.enter(stamp(1, 900), &mut stays[1]);
            let other = Vcpu { domain: 2, vcpu: 0 };
            let idle = Owner::Default(Pcpu(2));
            let lost = Stamp {
                owner: idle,
                ..stamp(2, lost_to)
            };
            measurement.lose(lost, &mut stays[2], lost_from, other);
            let cycles = [0, 800][usize::from(timed > 0)];
            assert_eq!(spells(&measurement), [(1, timed, cycles)], "{lost_from}");
            let times = measurement.times(std::iter::empty());
            assert_eq!(times.runstates().count(), usize::from(timed > 0));
        }
    }

    #[test]
    fn records_without_a_time_stamp_are_counted_and_end_what_is_open() {
        let (mut measurement, mut stay) = (Measurement::default(), Stay::default());
        measurement.exit(stamp(0, 100), &mut stay, HLT);
        measurement.enter(untimed(0), &mut stay);
        measurement.exit(untimed(0), &mut stay, HLT);
        measurement.enter(stamp(0, 300), &mut stay);
        assert_eq!(spells(&measurement), [(2, 0, 0)]);
    }

    #[test]
    fn a_clock_that_goes_back_ends_what_is_open() {
        let (mut measurement, mut stay) = (Measurement::default(), Stay::default());
        assert!(stay.advance(100));
        measurement.exit(stamp(0, 100), &mut stay, HLT);
        assert!(!stay.advance(40));
        measurement.end([(Owner::Vcpu(VCPU), stay)].into_iter());
        measurement.enter(stamp(0, 40), &mut Stay::default());
        let disordered = measurement.times(std::iter::empty()).disordered();
        assert_eq!((spells(&measurement), disordered), (vec![(1, 0, 0)], 1));
    }

    #[test]
    fn times_of_a_damaged_trace_do_not_overflow() {
        let (mut measurement, mut stay) = (Measurement::default(), Stay::default());
        for _ in 0..3 {
            measurement.exit(stamp(0, 0), &mut stay, HLT);
            measurement.enter(stamp(0, u64::MAX), &mut stay);
        }
        assert_eq!(spells(&measurement), [(3, 3, u64::MAX)]);
    }
}

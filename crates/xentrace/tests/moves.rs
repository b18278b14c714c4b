//! Times of vcpus that move between CPUs, in traces as Xen and xentrace write them.
//!
//! A small scheduler runs vcpus on CPUs whose buffers are small, and goes round them as xentrace does. The times of exits and
//! runstates must be those of an oracle that has all records at once, sorts them by time and follows each vcpu; and no exit
//! may be given a time that it did not take.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::collections::BTreeMap;

use pagetoll_xentrace::{ExitReason, Owner, PvCounts, Runstate, Summary, Times, Vcpu};
use proptest::prelude::*;
use proptest::sample::Index;

const IDLE: u16 = 32767;

/// A record, of which a trace has more than one needs to follow vcpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Change(Vcpu, Runstate, Runstate),
    /// By a number that no other exit has.
    Exit(u32),
    Enter,
    Lost(u32, Vcpu, u64),
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    cpu: usize,
    tsc: u64,
    what: What,
}

/// A step of the host.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The CPU leaves its guest, or enters it.
    Cross(Index),
    /// The CPU goes on with another vcpu, or idles.
    Schedule(Index, Index, bool),
    /// A vcpu that waits may run again, says this CPU.
    Wake(Index, Index),
    /// xentrace writes a window, and goes on to the next CPU.
    Write(u8),
}

#[derive(Default)]
struct Cpu {
    buffer: Vec<Record>,
    lost: u32,
    first_lost: u64,
    running: Running,
}

/// The vcpu of a CPU: its own idle one, or another by its index.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Running {
    #[default]
    Idle,
    Guest(usize),
}

#[derive(Clone, Copy)]
struct Guest {
    state: Runstate,
    open: Option<(u32, u64)>,
}

struct Host {
    clock: u64,
    room: usize,
    cpus: Vec<Cpu>,
    guests: Vec<Guest>,
    cursor: usize,
    exits: u32,
    /// Cycles of each exit that ended, recorded or not.
    truth: BTreeMap<u32, u64>,
    windows: Vec<(usize, Vec<Record>)>,
}

impl Host {
    fn new(cpus: usize, guests: usize, room: usize) -> Self {
        let guest = Guest {
            state: Runstate::Runnable,
            open: Some((0, 0)),
        };
        Self {
            clock: 1000,
            room,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            guests: vec![guest; guests],
            cursor: 0,
            exits: 0,
            truth: BTreeMap::new(),
            windows: Vec::new(),
        }
    }

    fn vcpu(&self, cpu: usize) -> Vcpu {
        match self.cpus[cpu].running {
            Running::Idle => idle(cpu),
            Running::Guest(guest) => vcpu(guest),
        }
    }

    /// `trace` of `xen/common/trace.c`, with room for so many records.
    fn record(&mut self, cpu: usize, what: What) -> u64 {
        self.clock += 1;
        let (tsc, running) = (self.clock, self.vcpu(cpu));
        let of = &mut self.cpus[cpu];
        let needed = 1 + usize::from(of.lost > 0);
        if of.buffer.len() + needed > self.room {
            if of.lost == 0 {
                of.first_lost = tsc;
            }
            of.lost += 1;
            return tsc;
        }
        if of.lost > 0 {
            let lost = What::Lost(of.lost, running, of.first_lost);
            of.buffer.push(Record {
                cpu,
                tsc,
                what: lost,
            });
            of.lost = 0;
        }
        of.buffer.push(Record { cpu, tsc, what });
        tsc
    }

    fn step(&mut self, step: Step) {
        self.clock += 3;
        match step {
            Step::Cross(cpu) => self.cross(cpu.index(self.cpus.len())),
            Step::Schedule(cpu, next, waits) => {
                let cpu = cpu.index(self.cpus.len());
                self.schedule(cpu, next, waits);
            }
            Step::Wake(cpu, guest) => {
                let (cpu, guest) = (cpu.index(self.cpus.len()), guest.index(self.guests.len()));
                if self.guests[guest].state == Runstate::Blocked {
                    self.change(cpu, guest, Runstate::Runnable);
                }
            }
            Step::Write(cpus) => (0..cpus).for_each(|_| self.write()),
        }
    }

    fn change(&mut self, cpu: usize, guest: usize, new: Runstate) {
        let old = std::mem::replace(&mut self.guests[guest].state, new);
        self.record(cpu, What::Change(vcpu(guest), old, new));
    }

    fn cross(&mut self, cpu: usize) {
        let Running::Guest(guest) = self.cpus[cpu].running else {
            return;
        };
        if let Some((exit, since)) = self.guests[guest].open.take() {
            let tsc = self.record(cpu, What::Enter);
            self.truth.insert(exit, tsc - since);
        } else {
            self.exits += 1;
            let exit = self.exits;
            let tsc = self.record(cpu, What::Exit(exit));
            self.guests[guest].open = Some((exit, tsc));
        }
    }

    fn schedule(&mut self, cpu: usize, next: Index, waits: bool) {
        let runnable: Vec<_> = (0..self.guests.len())
            .filter(|&guest| self.guests[guest].state == Runstate::Runnable)
            .collect();
        let next = match next.index(runnable.len() + 1) {
            0 => Running::Idle,
            guest => Running::Guest(runnable[guest - 1]),
        };
        if let Running::Guest(guest) = self.cpus[cpu].running
            && self.guests[guest].open.is_none()
        {
            self.cross(cpu);
        }
        match self.cpus[cpu].running {
            Running::Guest(guest) => {
                let new = match waits {
                    true => Runstate::Blocked,
                    false => Runstate::Runnable,
                };
                self.change(cpu, guest, new);
            }
            Running::Idle if next == Running::Idle => return,
            Running::Idle => {
                let what = What::Change(idle(cpu), Runstate::Running, Runstate::Runnable);
                self.record(cpu, what);
            }
        }
        match next {
            Running::Guest(guest) => self.change(cpu, guest, Runstate::Running),
            Running::Idle => {
                let what = What::Change(idle(cpu), Runstate::Runnable, Runstate::Running);
                self.record(cpu, what);
            }
        }
        self.cpus[cpu].running = next;
    }

    /// `monitor_tbufs` of xentrace.
    fn write(&mut self) {
        let records = std::mem::take(&mut self.cpus[self.cursor].buffer);
        if !records.is_empty() {
            self.windows.push((self.cursor, records));
        }
        self.cursor = (self.cursor + 1) % self.cpus.len();
    }

    /// Has every CPU say what it lost, and writes all.
    fn end(&mut self) {
        (0..self.cpus.len()).for_each(|_| self.write());
        for cpu in 0..self.cpus.len() {
            self.record(cpu, What::Other);
        }
        (0..2 * self.cpus.len()).for_each(|_| self.write());
    }

    fn bytes(&self) -> Vec<u8> {
        let windows = self.windows.iter().flat_map(|(cpu, records)| {
            let words: Vec<u32> = records.iter().flat_map(words).collect();
            let size = u32::try_from(4 * words.len()).unwrap();
            let head = [0x2001_f003, u32::try_from(*cpu).unwrap(), size];
            head.into_iter().chain(words)
        });
        windows.flat_map(u32::to_le_bytes).collect()
    }
}

fn vcpu(guest: usize) -> Vcpu {
    let vcpu = u16::try_from(guest).unwrap();
    Vcpu { domain: 1, vcpu }
}

fn idle(cpu: usize) -> Vcpu {
    let vcpu = u16::try_from(cpu).unwrap();
    Vcpu { domain: IDLE, vcpu }
}

fn halves(tsc: u64) -> [u32; 2] {
    [tsc & u64::from(u32::MAX), tsc >> 32].map(|half| u32::try_from(half).unwrap())
}

fn words(record: &Record) -> Vec<u32> {
    let (event, extra) = match record.what {
        What::Change(vcpu, old, new) => {
            let event = 0x2_1001 | (old as u32) << 8 | (new as u32) << 4;
            let vcpu = u32::from(vcpu.domain) << 16 | u32::from(vcpu.vcpu);
            (event, vec![vcpu])
        }
        What::Exit(reason) => (0x8_1102, vec![reason, 5, 0]),
        What::Enter => (0x8_1001, vec![]),
        What::Lost(count, running, first) => {
            let running = u32::from(running.vcpu) << 16 | u32::from(running.domain);
            let [low, high] = halves(first);
            (0x1_f001, vec![count, running, low, high])
        }
        What::Other => (0x80_2001, vec![]),
    };
    let extra_words = u32::try_from(extra.len()).unwrap();
    let header = 1 << 31 | extra_words << 28 | event;
    [&[header][..], &halves(record.tsc), &extra].concat()
}

/// Cycles of every exit in the file: `None` where its end is not known.
type Exits = BTreeMap<(Owner, u32), Option<u64>>;
/// Count and cycles.
type Runstates = BTreeMap<(Owner, Runstate), (u64, u64)>;

/// All records in the order of their time, and where some were lost: CPU, and from when to when.
struct Oracle {
    records: Vec<(Owner, Record)>,
    gaps: Vec<(usize, u64, u64)>,
}

impl Oracle {
    fn new(host: &Host) -> Self {
        let mut records: Vec<Record> = host.windows.iter().flat_map(|(_, r)| r.clone()).collect();
        records.sort_by_key(|record| (record.tsc, record.cpu));
        let mut gaps = Vec::new();
        let default = |cpu| Owner::Default(pagetoll_xentrace::Pcpu(cpu));
        let mut running: Vec<_> = (0..).map(default).take(host.cpus.len()).collect();
        let owned = records.iter().map(|record| {
            let owner = running[record.cpu];
            match record.what {
                What::Change(vcpu, _, Runstate::Running) => {
                    running[record.cpu] = Owner::Vcpu(vcpu);
                }
                What::Change(_, Runstate::Running, _) => running[record.cpu] = Owner::Unknown,
                What::Lost(_, vcpu, first) => {
                    gaps.push((record.cpu, first, record.tsc));
                    running[record.cpu] = Owner::Vcpu(vcpu);
                }
                _ => {}
            }
            (owner, *record)
        });
        let records = owned.collect();
        Self { records, gaps }
    }

    fn is_lost(&self, cpu: Option<usize>, from: u64, to: u64) -> bool {
        let mut gaps = self.gaps.iter();
        gaps.any(|&(of, first, last)| {
            cpu.is_none_or(|cpu| cpu == of) && first <= to && last >= from
        })
    }

    fn exits(&self) -> Exits {
        let mut exits = Exits::new();
        for (at, (owner, exit)) in self.records.iter().enumerate() {
            let What::Exit(number) = exit.what else {
                continue;
            };
            exits.insert(
                (*owner, number),
                self.end(*owner, exit, &self.records[at + 1..]),
            );
        }
        exits
    }

    /// Cycles to the next record of a vcpu's guest, if that is an entry and none was lost that could be.
    fn end(&self, owner: Owner, exit: &Record, after: &[(Owner, Record)]) -> Option<u64> {
        let mut left = None;
        for (by, record) in after {
            let is_guests = matches!(record.what, What::Exit(_) | What::Enter);
            if *by != owner {
                continue;
            }
            if is_guests {
                let lost = match left {
                    None => self.is_lost(Some(exit.cpu), exit.tsc + 1, record.tsc),
                    Some(left) => {
                        self.is_lost(Some(exit.cpu), exit.tsc + 1, left)
                            || self.is_lost(None, left, record.tsc)
                    }
                };
                let ends = record.what == What::Enter && !lost;
                return ends.then_some(record.tsc - exit.tsc);
            }
            let leaves = matches!(record.what, What::Change(_, Runstate::Running, _));
            left = left.or(leaves.then_some(record.tsc));
        }
        None
    }

    fn runstates(&self) -> Runstates {
        let mut sums = Runstates::new();
        let mut current: BTreeMap<Vcpu, (Runstate, usize, u64)> = BTreeMap::new();
        for (_, record) in &self.records {
            let What::Change(vcpu, old, new) = record.what else {
                continue;
            };
            let state = (new, record.cpu, record.tsc);
            let Some((state, cpu, since)) = current.insert(vcpu, state) else {
                continue;
            };
            let cpu = (state == Runstate::Running).then_some(cpu);
            if state == old && !self.is_lost(cpu, since, record.tsc) {
                let sum = sums.entry((Owner::Vcpu(vcpu), state)).or_default();
                sum.0 += 1;
                sum.1 += record.tsc - since;
            }
        }
        sums
    }
}

fn our_exits(times: &Times) -> Exits {
    let exits = times.exits().map(|(owner, reason, spell)| {
        let ExitReason::Vmx(number) = reason else {
            panic!("{reason:?}");
        };
        assert_eq!(spell.count, 1);
        ((owner, number), (spell.timed > 0).then_some(spell.cycles))
    });
    exits.collect()
}

fn our_runstates(times: &Times) -> Runstates {
    let runstates = times.runstates();
    runstates
        .map(|(owner, state, spell)| {
            assert_eq!(spell.count, spell.timed);
            ((owner, state), (spell.count, spell.cycles))
        })
        .collect()
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let schedule = (index(), index(), any::<bool>());
    prop_oneof![
        8 => index().prop_map(Step::Cross),
        4 => schedule.prop_map(|(cpu, next, waits)| Step::Schedule(cpu, next, waits)),
        3 => (index(), index()).prop_map(|(cpu, guest)| Step::Wake(cpu, guest)),
        3 => (0_u8..4).prop_map(Step::Write),
    ]
}

fn host(room: impl Strategy<Value = usize>) -> impl Strategy<Value = Host> {
    let steps = prop::collection::vec(step(), 0..300);
    let sizes = (1_usize..5, 1_usize..6, room);
    (sizes, steps).prop_map(|((cpus, guests, room), steps)| {
        let mut host = Host::new(cpus, guests, room);
        for step in steps {
            host.step(step);
        }
        host.end();
        host
    })
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (cpu, records) in &self.windows {
            writeln!(f, "CPU {cpu}")?;
            for Record { tsc, what, .. } in records {
                writeln!(f, "  {tsc} {what:?}")?;
            }
        }
        Ok(())
    }
}

/// Holds the times of a host's trace against the oracle and the truth.
fn times_are_true(host: &Host) -> Result<(), TestCaseError> {
    let summary = Summary::<PvCounts>::read(host.bytes().as_slice()).unwrap();
    let (times, oracle) = (summary.times(), Oracle::new(host));
    prop_assert_eq!(times.disordered(), 0);
    let exits = our_exits(&times);
    for ((_, number), cycles) in &exits {
        let truth = host.truth.get(number);
        prop_assert!(cycles.is_none() || cycles.as_ref() == truth, "{}", number);
    }
    prop_assert_eq!(exits, oracle.exits());
    prop_assert_eq!(our_runstates(&times), oracle.runstates());
    Ok(())
}

proptest! {
    /// Nothing is lost: every time is that of the oracle, and the truth.
    #[test]
    fn vcpus_are_followed_from_cpu_to_cpu(host in host(Just(usize::MAX))) {
        times_are_true(&host)?;
    }

    /// Buffers overflow: times are those of the oracle, and none is wrong, also where a loss is told late.
    #[test]
    fn lost_records_end_what_they_may_have_been_about(host in host(3_usize..12)) {
        times_are_true(&host)?;
    }
}

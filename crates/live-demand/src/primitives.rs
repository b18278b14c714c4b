//! What demand paging is made of on this host: each primitive measured alone.
//!
//! Rounds of short bursts: every round measures every primitive once, so that a drift of the machine meets all of
//! them, and figures that are a difference of two are taken within a round. What needs one thread is timed by that
//! thread's CPU clock, which stands while others have the CPU; wake-ups and cache lines are timed by the wall clock,
//! and the middle one of many is taken. A round before those that count is thrown away: it faults code and data in.
//!
//! It says what a primitive costs when nothing else is wanted of the machine; not how many of them a page takes, which
//! the simulator knows, nor what a lock costs that others want too, apart from the cache line under it.

mod estimate;
mod figures;
mod guest;
mod lines;
mod memory;
mod name;
mod queue;
mod round;
mod system_calls;
mod topology;
mod wake_ups;

use std::collections::{BTreeMap, BTreeSet};

use pagetoll_backend::Context;
use pagetoll_bill::HostLoad;
use pagetoll_cost::{Nearness, Topology};

pub use estimate::Estimate;
pub use figures::figures;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::{LiveError, host};
use round::Round;

/// Rounds unless ordered otherwise.
pub const DEFAULT_ROUNDS: u32 = 21;
/// The largest accepted `--rounds`.
pub const MOST_ROUNDS: u32 = 1000;

/// Pages of a burst: 4 MiB, as much as a guest with as many page tables has.
const PAGES: u64 = 1024;
/// Pages that content is copied from, taken in turn: 64 MiB, more than most caches, as a pager's source is.
const SOURCE_PAGES: u64 = 16384;

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Primitive {
    /// A system call that does nothing (gettid).
    SystemCall,
    /// `UFFDIO_COPY` of one page that also wakes, without waiters.
    CopyAndWake,
    /// A page of an `UFFDIO_COPY` of this many, without wake-up.
    Copy(u64),
    /// A page of an `UFFDIO_CONTINUE` of this many of a memfd, without wake-up.
    Continue(u64),
    /// A page of `MADV_POPULATE_WRITE`.
    PopulateWrite,
    /// The first write to an anonymous page.
    FirstTouch,
    /// A page given back with its mapping.
    Munmap,
    /// A page populated one at a time by the pager's own handler, its `UFFDIO_COPY` included.
    PopulateByHandler,
    /// The part of that which asks the source.
    ReadSource,
    /// poll(2) on a userfaultfd with a message.
    Poll,
    /// epoll_wait(2) on the same.
    Epoll,
    /// read(2) of one message of a userfaultfd.
    ReadMessage,
    /// One waiting fault looked at by an `UFFDIO_WAKE` for another page.
    QueueEntry,
    /// write(2) to an eventfd without waiters.
    EventfdWrite,
    /// read(2) of an eventfd that is ready.
    EventfdRead,
    /// write(2) to an eventfd that a thread of the same CPU sleeps on, up to where that one gets the CPU.
    EventfdWake,
    /// write(2) to an eventfd that a thread on another, idle CPU sleeps on.
    EventfdWakeOther,
    /// From a write to an eventfd until the woken thread has read it, both on one CPU.
    OneWaySameCpu,
    /// The same on two CPUs, of which the woken one was idle.
    OneWayOtherCpu,
    /// An atomic addition (on x86-64 `lock xadd`) to a line that the CPU owns.
    LineHit,
    /// The same to a line that another CPU owns, by what it shares with that CPU.
    LineFrom(Nearness),
    /// The same to one line by this many threads on a CPU each: the time of one of all.
    Contended(u32),
    /// The guest leaves by what ends its programs, and is entered again.
    VmExit,
    /// `KVM_RUN` fails with `EFAULT` for a missing page, and is called again.
    EfaultRoundTrip,
    /// Finding that page: on x86-64 by decoding.
    FindPage,
    /// A guest's touch of a page that the host has.
    GuestTouch,
    /// A guest's touch of a page that the kernel fills with zeroes.
    GuestZeroFill,
    /// CPU time of a vCPU thread for a page that a reader of a userfaultfd populates.
    GuestSleep,
    /// CPU time of that reader, on the same CPU.
    GuestReader,
    /// CPU time for a page by a mechanism without readers on each of this many vCPUs, on as many CPUs.
    GuestPage(WithoutReader, u32),
}

/// A mechanism whose vCPU threads do not sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WithoutReader {
    /// `populated`
    Populated,
    /// `kernel`
    Kernel,
    /// `exit`
    Exit,
}

/// Access for which KVM takes `mmu_lock` when it maps a page of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmuLock {
    /// For reading, as the TDP MMU does.
    Read,
    /// For writing, as shadow paging does.
    Written,
}

impl MmuLock {
    fn of_this_host() -> Self {
        match std::fs::read_to_string("/sys/module/kvm/parameters/tdp_mmu") {
            Ok(text) if text.trim() == "N" => Self::Written,
            Ok(_) | Err(_) => Self::Read,
        }
    }
}

/// Primitives that are measured together, and fail together.
struct Group {
    name: &'static str,
    measure: fn(&mut Round<'_>) -> Result<(), LiveError>,
    primitives: &'static [Primitive],
}

const GROUPS: [Group; 6] = [
    system_calls::GROUP,
    memory::GROUP,
    queue::GROUP,
    wake_ups::GROUP,
    lines::GROUP,
    guest::GROUP,
];

/// Samples of each primitive, round by round.
#[derive(Debug)]
pub struct Measurements {
    /// How the CPUs lie to each other.
    pub topology: Topology,
    /// The kernel and the CPU that were measured, as bills have them.
    pub stack: BTreeMap<String, String>,
    /// Load of the host meanwhile, of which the calling thread waited for others.
    pub load: HostLoad,
    /// Access for which `mmu_lock` is taken.
    pub mmu_lock: MmuLock,
    rounds: Vec<BTreeMap<Primitive, f64>>,
    absent: BTreeMap<Primitive, String>,
}

/// Measures all primitives in this many rounds.
///
/// # Errors
/// The host has no KVM or no userfaultfd at all, a guest failed, or a stop. What only some primitives
/// need and the host lacks is the reason of these.
pub fn measure(rounds: u32, context: &Context<'_>) -> Result<Measurements, LiveError> {
    host::check()?;
    let cpus = topology::Cpus::of_this_host();
    let guests = PAGES * u64::from(cpus.most_vcpus());
    host::require_memory((SOURCE_PAGES + 8 * PAGES + guests) * 4096)?;
    let content = Content::WORDS.bytes(SOURCE_PAGES);
    let (watch, before) = (host::Watch::begin()?, Scheduled::of_thread());
    let mut found = Measurements {
        topology: cpus.topology(),
        stack: host::stack(),
        load: HostLoad::default(),
        mmu_lock: MmuLock::of_this_host(),
        rounds: Vec::new(),
        absent: BTreeMap::new(),
    };
    let steps = u64::from(rounds + 1) * GROUPS.len() as u64;
    let mut phase = context.progress.begin_timed("measuring this host", steps);
    for number in 0..=rounds {
        let mut round = Round::new(&content, &cpus, number, context.stop);
        for group in &GROUPS {
            context.stop.check()?;
            phase.step(group.name);
            group.run(&mut round)?;
        }
        found.add(round);
    }
    found.load = watch.end_of(Scheduled::of_thread() - before)?;
    Ok(found)
}

impl Group {
    /// What the host lacks ends the group and not the measurement.
    fn run(&self, round: &mut Round<'_>) -> Result<(), LiveError> {
        match (self.measure)(round) {
            Err(LiveError::Environment { what, remedy }) => {
                for primitive in self.primitives {
                    round.lacks(*primitive, format!("{what}; {remedy}"));
                }
                Ok(())
            }
            other => other,
        }
    }
}

impl Measurements {
    fn add(&mut self, round: Round<'_>) {
        let is_warm_up = round.number == 0;
        let (samples, absent) = round.into_parts();
        self.absent.extend(absent);
        if !is_warm_up {
            self.rounds.push(samples);
        }
    }

    /// Every primitive with what it costs in nanoseconds, or why that could not be measured.
    pub fn each(&self) -> impl Iterator<Item = (Primitive, Result<Estimate, &str>)> {
        let mut all: Vec<Primitive> = self.absent.keys().copied().collect();
        all.extend(self.rounds.iter().flat_map(BTreeMap::keys).copied());
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|primitive| {
            let found = self.estimate(|round| round.get(&primitive).copied());
            let reason = self.absent.get(&primitive).map_or("not measured", |r| r);
            (primitive, found.ok_or(reason))
        })
    }

    /// Numbers of vCPUs on which pages were timed.
    fn vcpus(&self) -> BTreeSet<u32> {
        let primitives = self.rounds.iter().flat_map(BTreeMap::keys);
        let vcpus = primitives.filter_map(|primitive| match primitive {
            Primitive::GuestPage(_, vcpus) => Some(*vcpus),
            _ => None,
        });
        vcpus.collect()
    }

    /// A figure that is computed in each round; `None` where no round has what it takes.
    fn estimate(&self, of: impl Fn(&BTreeMap<Primitive, f64>) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(self.rounds.iter().filter_map(of).collect())
    }
}

#[cfg(test)]
mod tests;

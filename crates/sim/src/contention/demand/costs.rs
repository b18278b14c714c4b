//! Cost of each step of a fault on one machine: a cost table's figures, in nanoseconds, under the names that the model
//! uses.
//!
//! Factors can be laid over them, which [`super::calibrate`] finds.

use pagetoll_cost::{CostError, CostKey, Nearness, Prices, Topology};
use pagetoll_engine::Ticks;

/// Ticks of the engine in a nanosecond.
const TICKS_PER_NANO: f64 = 10.0;

/// Nanoseconds as the engine counts them; nothing for what is no time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and the value is not negative"
)]
pub(crate) fn ticks(nanos: f64) -> Ticks {
    Ticks((nanos * TICKS_PER_NANO).round().max(0.0) as u64)
}

/// The other way round.
#[expect(clippy::cast_precision_loss, reason = "a run is far below 2^53 ticks")]
pub(crate) fn nanos(ticks: Ticks) -> f64 {
    ticks.get() as f64 / TICKS_PER_NANO
}

/// Factors on a table's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factor on the computing of every mechanism.
    pub compute: f64,
    /// Factor on the work that only a thread has which sleeps or reads faults: going to sleep, reading, waking, coming
    /// round.
    pub asleep: f64,
    /// Factor on the number of lines that a page moves without queueing for them.
    pub others: f64,
    /// Factor on the time that a line takes from one CPU to another.
    pub lines: f64,
    /// Factor on that time between CPUs of different L3 caches, beside `lines`.
    pub far: f64,
    /// Factor on all work under the userfaultfd's locks, and on handing them over.
    pub locked: f64,
    /// Factor on looking at an entry of a wait queue.
    pub walks: f64,
    /// Factor on touching a page that the host has.
    pub touch: f64,
    /// Factor on filling a page with zeroes.
    pub zero_fill: f64,
    /// Factor on the share of a fault for which `mmu_lock` is held for writing.
    pub held: f64,
    /// Factor on what computing takes longer after a fault of another vCPU.
    pub shared: f64,
}

impl Factors {
    /// The table's figures as they are.
    pub const NONE: Self = Self {
        compute: 1.0,
        asleep: 1.0,
        others: 1.0,
        lines: 1.0,
        far: 1.0,
        locked: 1.0,
        walks: 1.0,
        touch: 1.0,
        zero_fill: 1.0,
        held: 1.0,
        shared: 1.0,
    };
}

/// Computing, for a thread alone on its core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) touch: f64,
    pub(crate) zero_fill: f64,
    pub(crate) sleep: f64,
    pub(crate) exit: f64,
    pub(crate) resolve: f64,
    pub(crate) user: f64,
    pub(crate) source_page: f64,
    pub(crate) copy_call: f64,
    pub(crate) copy_page: f64,
    pub(crate) poll: f64,
    pub(crate) read: f64,
    pub(crate) read_switch: f64,
}

/// `mmu_lock`, held for writing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MmuLock {
    /// For each fault, whatever it maps.
    fault: f64,
    /// For each page that a fault maps.
    page: f64,
}

impl MmuLock {
    /// Pages that a fault of shadow paging maps at most: `PTE_PREFETCH_NUM` (arch/x86/kvm/mmu/mmu.c).
    pub(crate) const TOGETHER: u32 = 8;

    /// Time for a page, where a fault maps this many.
    pub(crate) fn of_page(&self, mapped: u32) -> f64 {
        self.page + self.fault / f64::from(mapped.clamp(1, Self::TOGETHER))
    }
}

/// Waking and being woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) call: f64,
    pub(crate) same_cpu: f64,
    pub(crate) other_cpu: f64,
}

/// Moving lines, and handing over what lies in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) hit: f64,
    core: f64,
    l3: f64,
    socket: f64,
    machine: f64,
    pub(crate) near_grants: u32,
    pub(crate) hand_off: f64,
    pub(crate) under_lock: f64,
    /// Lines of a thread that is woken before it sleeps.
    pub(crate) awake: f64,
    pub(crate) others: f64,
}

/// Walks of wait queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walks {
    pub(crate) fault: f64,
    pub(crate) fault_lines: f64,
    pub(crate) reader: f64,
    pub(crate) reader_lock: f64,
    pub(crate) reader_lines: f64,
    /// Readers that a walk looks at before it lets the lock go; 0 for all.
    pub(crate) part: u32,
}

/// The costs of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) topology: Topology,
    pub(crate) work: Work,
    pub(crate) wake: Wake,
    pub(crate) lines: Lines,
    pub(crate) walks: Walks,
    /// Absent where it is held for reading.
    pub(crate) mmu_lock: Option<MmuLock>,
    pub(crate) smt_slowdown: f64,
    pub(crate) node_threads: f64,
}

impl Costs {
    /// Reads them off one sample of a table, for this many vCPUs. A transfer that the topology has no use for need not be
    /// there.
    pub(crate) fn new(
        topology: Topology,
        prices: &Prices<'_>,
        factors: Factors,
        vcpus: u32,
    ) -> Result<Self, CostError> {
        let work = work(prices)?
            .scaled(factors)
            .slowed(slowdown(prices, factors, vcpus));
        Ok(Self {
            topology,
            work,
            mmu_lock: mmu_lock(prices, work.touch, factors.held),
            wake: wake(prices)?.scaled(factors),
            lines: lines(topology, prices)?.scaled(factors),
            walks: Walks {
                fault: prices.price(CostKey::DEMAND_QUEUE_ENTRY)?,
                fault_lines: FAULT_LINES,
                reader: prices.price(CostKey::DEMAND_EPOLL_CALLBACK)?,
                reader_lock: prices
                    .given(CostKey::DEMAND_EPOLL_LOCK_LINES)
                    .unwrap_or(1.0),
                reader_lines: prices.price(CostKey::DEMAND_EPOLL_CALLBACK_LINES)?,
                part: prices.given(CostKey::DEMAND_EPOLL_PART).map_or(0, whole),
            }
            .scaled(factors),
            smt_slowdown: if topology.threads > 1 {
                prices.price(CostKey::DEMAND_SMT_SLOWDOWN)?
            } else {
                1.0
            },
            node_threads: if topology.sockets > 1 {
                prices.price(CostKey::DEMAND_NODE_THREADS)?
            } else {
                f64::INFINITY
            },
        })
    }
}

/// Lines in which a walk past a waiting fault reads: the entry's pointers, on the stack of the vCPU's thread
/// (fs/userfaultfd.c, `struct userfaultfd_wait_queue`).
const FAULT_LINES: f64 = 1.0;
/// Lines that `try_to_wake_up` takes from a thread that has not left its CPU yet (kernel/sched/core.c, `ttwu_runnable`):
/// its `__state` and `on_rq`, its `pi_lock`, and the lock of its run queue.
const AWAKE_LINES: f64 = 3.0;

/// Factor on computing: that of [`CostKey::DEMAND_OTHERS_SHARE`] as often as the last fault was another vCPU's, where
/// each is as likely to have had it.
fn slowdown(prices: &Prices<'_>, factors: Factors, vcpus: u32) -> f64 {
    let share = prices.given(CostKey::DEMAND_OTHERS_SHARE).unwrap_or(0.0);
    1.0 + share * factors.shared * (1.0 - 1.0 / f64::from(vcpus))
}

/// The lock's times, of which a page that is mapped with others takes a share of its touch.
fn mmu_lock(prices: &Prices<'_>, touch: f64, held: f64) -> Option<MmuLock> {
    let together = touch * held * prices.given(CostKey::DEMAND_MMU_LOCK_SHARE)?;
    let alone = prices.given(CostKey::DEMAND_MMU_LOCK_ALONE).unwrap_or(1.0);
    let most = f64::from(MmuLock::TOGETHER);
    let fault = (alone - 1.0) * together * most / (most - 1.0);
    Some(MmuLock {
        fault,
        page: (together - fault / most).max(0.0),
    })
}

fn work(prices: &Prices<'_>) -> Result<Work, CostError> {
    Ok(Work {
        touch: prices.price(CostKey::DEMAND_TOUCH)?,
        zero_fill: prices.price(CostKey::DEMAND_ZERO_FILL)?,
        sleep: prices.price(CostKey::DEMAND_SLEEP)?,
        exit: prices.price(CostKey::DEMAND_EXIT)?,
        resolve: prices.price(CostKey::DEMAND_RESOLVE)?,
        user: prices.price(CostKey::DEMAND_USER)?,
        source_page: prices.price(CostKey::DEMAND_SOURCE_PAGE)?,
        copy_call: prices.price(CostKey::DEMAND_COPY_CALL)?,
        copy_page: prices.price(CostKey::DEMAND_COPY_PAGE)?,
        poll: prices.price(CostKey::DEMAND_POLL)?,
        read: prices.price(CostKey::DEMAND_READ)?,
        read_switch: prices.given(CostKey::DEMAND_READ_SWITCH).unwrap_or(0.0),
    })
}

fn wake(prices: &Prices<'_>) -> Result<Wake, CostError> {
    Ok(Wake {
        call: prices.price(CostKey::DEMAND_WAKE)?,
        same_cpu: prices.price(CostKey::DEMAND_WAKE_LATENCY_SAME)?,
        other_cpu: prices.price(CostKey::DEMAND_WAKE_LATENCY_OTHER)?,
    })
}

fn lines(topology: Topology, prices: &Prices<'_>) -> Result<Lines, CostError> {
    let loaded = prices.given(CostKey::DEMAND_LINE_LOADED).unwrap_or(1.0);
    let between = |parts: u32, key| {
        if parts > 1 {
            Ok(loaded * prices.price(key)?)
        } else {
            Ok(0.0)
        }
    };
    Ok(Lines {
        hit: prices.price(CostKey::DEMAND_LINE_HIT)?,
        core: between(topology.threads, CostKey::DEMAND_LINE_SMT)?,
        l3: between(topology.cores, CostKey::DEMAND_LINE_L3)?,
        socket: between(topology.l3_groups, CostKey::DEMAND_LINE_SOCKET)?,
        machine: between(topology.sockets, CostKey::DEMAND_LINE_REMOTE)?,
        near_grants: whole(prices.price(CostKey::DEMAND_NEAR_GRANTS)?),
        hand_off: prices.price(CostKey::DEMAND_HAND_OFF)?,
        under_lock: prices.price(CostKey::DEMAND_LOCK_LINES)?,
        awake: AWAKE_LINES,
        others: prices.given(CostKey::DEMAND_OTHER_LINES).unwrap_or(0.0),
    })
}

/// The nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and no figure is negative"
)]
fn whole(number: f64) -> u32 {
    number.round() as u32
}

impl Work {
    fn scaled(self, factors: Factors) -> Self {
        let Factors {
            compute, asleep, ..
        } = factors;
        Self {
            touch: self.touch * compute * factors.touch,
            zero_fill: self.zero_fill * compute * factors.zero_fill,
            sleep: self.sleep * asleep,
            exit: self.exit * compute,
            resolve: self.resolve * compute,
            user: self.user * compute,
            source_page: self.source_page * compute,
            copy_call: self.copy_call * compute,
            copy_page: self.copy_page * compute,
            poll: self.poll * asleep,
            read: self.read * asleep,
            read_switch: self.read_switch * asleep,
        }
    }

    /// All of it, longer by a factor.
    fn slowed(self, factor: f64) -> Self {
        Self {
            touch: self.touch * factor,
            zero_fill: self.zero_fill * factor,
            sleep: self.sleep * factor,
            exit: self.exit * factor,
            resolve: self.resolve * factor,
            user: self.user * factor,
            source_page: self.source_page * factor,
            copy_call: self.copy_call * factor,
            copy_page: self.copy_page * factor,
            poll: self.poll * factor,
            read: self.read * factor,
            read_switch: self.read_switch * factor,
        }
    }
}

impl Wake {
    fn scaled(self, factors: Factors) -> Self {
        Self {
            call: self.call * factors.asleep * factors.locked,
            same_cpu: self.same_cpu * factors.asleep,
            other_cpu: self.other_cpu * factors.asleep,
        }
    }
}

impl Walks {
    /// No time at all.
    pub(crate) const NONE: Self = Self {
        fault: 0.0,
        fault_lines: 0.0,
        reader: 0.0,
        reader_lock: 0.0,
        reader_lines: 0.0,
        part: 0,
    };

    fn scaled(self, factors: Factors) -> Self {
        Self {
            fault: self.fault * factors.walks,
            fault_lines: self.fault_lines * factors.walks,
            reader: self.reader * factors.walks,
            reader_lock: self.reader_lock * factors.walks,
            reader_lines: self.reader_lines * factors.walks,
            part: self.part,
        }
    }
}

impl Lines {
    fn scaled(self, factors: Factors) -> Self {
        Self {
            hand_off: self.hand_off * factors.locked,
            under_lock: self.under_lock * factors.locked,
            awake: self.awake * factors.locked,
            others: self.others * factors.others,
            core: self.core * factors.lines,
            l3: self.l3 * factors.lines,
            socket: self.socket * factors.lines * factors.far,
            machine: self.machine * factors.lines * factors.far,
            ..self
        }
    }

    /// An access on one CPU of a line that another has.
    pub(crate) const fn access(&self, nearness: Nearness) -> f64 {
        match nearness {
            Nearness::Cpu => self.hit,
            Nearness::Core => self.core,
            Nearness::L3 => self.l3,
            Nearness::Socket => self.socket,
            Nearness::Machine => self.machine,
        }
    }
}

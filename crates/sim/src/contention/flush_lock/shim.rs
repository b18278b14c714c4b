//! The vCPUs of a PV shim and what they share: `flush_lock`, the mask, the interrupt, TLBs.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use pagetoll_engine::{
    CoreId, Cx, Engine, Ipi, IpiCosts, IpiTolls, TicketCosts, TicketLock, Ticks, Toll, Tolls,
};
use pagetoll_models::x86::Tlb;
use pagetoll_units::Nanos;

use super::setup::{FlushSetup, Hold, MOST_VCPUS, WaitsWith};
use pagetoll_xentrace::lock_profile::{LockProfile, Spent};

/// Tolls that the time of a run is charged to.
#[derive(Clone, Copy)]
pub(super) struct FlushTolls {
    compute: Toll,
    spin: Toll,
    ipi_send: Toll,
    ipi_wait: Toll,
    handle: Toll,
}

impl FlushTolls {
    pub(super) fn register() -> (Tolls, Self) {
        let mut names = Tolls::new();
        let tolls = Self {
            compute: names.register("compute"),
            spin: names.register("flush_lock"),
            ipi_send: names.register("send_IPI_mask"),
            ipi_wait: names.register("flush_cpumask"),
            handle: names.register("invalidate_interrupt"),
        };
        (names, tolls)
    }
}

/// The vCPUs, by bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuMask(pub(super) u64);

impl CpuMask {
    pub(super) fn first(count: u32) -> Self {
        Self(u64::MAX >> (MOST_VCPUS - count))
    }

    fn without(self, cpu: u32) -> Self {
        Self(self.0 & !(1 << cpu))
    }

    /// The vCPUs, the lowest first.
    fn cpus(self) -> impl Iterator<Item = u32> {
        let rests = std::iter::successors(Some(self.0), |rest| Some(rest & (rest - 1)));
        rests.take(self.len()).map(u64::trailing_zeros)
    }

    fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Objects that the vCPUs share.
pub(super) struct Shim {
    setup: FlushSetup,
    tolls: FlushTolls,
    /// Mean times for sending and handling.
    hold: Hold,
    flush_lock: TicketLock,
    invalidate_tlb: Ipi,
    flush_cpumask: Cell<CpuMask>,
    /// TLBs by vCPU.
    pub(super) tlbs: RefCell<Vec<Tlb>>,
    /// Flushes that have begun.
    begun: Cell<u64>,
    pub(super) profile: Profile,
}

/// The profile as it grows.
#[derive(Default)]
pub(super) struct Profile {
    lock: Cell<Spent>,
    block: Cell<Spent>,
}

impl Profile {
    pub(super) fn take(&self) -> LockProfile {
        let lock = self.lock.get();
        let tickets = u32::try_from(lock.count & 0xffff).unwrap_or(0);
        LockProfile {
            name: "flush_lock".to_owned(),
            addr: 0,
            lockval: tickets << 16 | tickets,
            cpu: None,
            lock,
            block: self.block.get(),
        }
    }

    fn add(spent: &Cell<Spent>, time: Ticks) {
        let mut sum = spent.get();
        sum.add(time.get());
        spent.set(sum);
    }
}

impl Shim {
    pub(super) fn new(engine: &Engine, tolls: FlushTolls, setup: FlushSetup, hold: Hold) -> Self {
        let ipi = IpiTolls {
            send: tolls.ipi_send,
            wait: tolls.ipi_wait,
            handle: tolls.handle,
        };
        let handle = engine.handle();
        // A hand-off is within what the published holds and blocks were measured with.
        let hand_off = TicketCosts::default();
        Self {
            setup,
            tolls,
            hold,
            flush_lock: TicketLock::new(handle, "flush_lock", tolls.spin, hand_off),
            invalidate_tlb: Ipi::new(handle, "INVALIDATE_TLB", ipi, IpiCosts::default()),
            flush_cpumask: Cell::default(),
            tlbs: RefCell::new(vec![Tlb::default(); setup.vcpus as usize]),
            begun: Cell::new(0),
            profile: Profile::default(),
        }
    }

    /// Computes, flushes the others, and begins again, as a vCPU of the shim.
    pub(super) async fn work(&self, cx: &Cx) {
        while self.begun.get() < self.setup.flushes {
            let compute = scaled(self.setup.demand.compute, exponential(cx));
            cx.charge(self.tolls.compute, compute).await;
            if self.begun.get() < self.setup.flushes {
                self.begun.set(self.begun.get() + 1);
                self.flush_area_mask(cx, CpuMask::first(self.setup.vcpus))
                    .await;
            }
        }
    }

    /// `flush_area_mask` of everything. (Its time before the lock is taken is part of computing.)
    pub(super) async fn flush_area_mask(&self, cx: &Cx, mask: CpuMask) {
        let this = cx.core().0;
        let others = mask.without(this);
        if others != mask {
            self.flush_area_local(this);
        }
        if others == CpuMask::default() {
            return;
        }
        let masked = (self.setup.waits == WaitsWith::InterruptsOff).then(|| cx.mask_interrupts());
        let asked = cx.now();
        let guard = self.flush_lock.acquire(cx).await;
        let locked = cx.now();
        if locked > asked {
            Profile::add(&self.profile.block, locked.since(asked));
        }
        self.flush_cpumask.set(others);
        self.interrupt_others(cx).await;
        Profile::add(&self.profile.lock, cx.now().since(locked));
        drop(guard);
        drop(masked);
    }

    /// Sends INVALIDATE_TLB to those in the mask, and waits until it is empty.
    async fn interrupt_others(&self, cx: &Cx) {
        let Hold { sending, handling } = self.hold;
        let scale = self.hold_scale(cx);
        cx.charge(self.tolls.ipi_send, scaled(sending, scale)).await;
        let mask = self.flush_cpumask.get();
        let mut targets = Vec::with_capacity(mask.len());
        targets.extend(mask.cpus().map(CoreId));
        let handling = scaled(handling, scale);
        self.invalidate_tlb
            .send_and_wait(cx, &targets, handling)
            .await;
        targets
            .iter()
            .for_each(|target| self.invalidate_interrupt(target.0));
        debug_assert_eq!(self.flush_cpumask.get(), CpuMask::default());
    }

    /// Handles a flush on a target; its time is the interrupt's.
    fn invalidate_interrupt(&self, cpu: u32) {
        self.flush_area_local(cpu);
        self.flush_cpumask
            .set(self.flush_cpumask.get().without(cpu));
    }

    fn flush_area_local(&self, cpu: u32) {
        self.tlbs.borrow_mut()[cpu as usize].flush_all();
    }

    /// Ratio of a hold to the mean: always 1, or exponential, or one of two exponential ones whose shares of the time
    /// are equal (balanced means, as in Allen, "Probability, Statistics, and Queueing Theory", 1990).
    fn hold_scale(&self, cx: &Cx) -> f64 {
        let variation = self.setup.demand.hold_variation;
        if variation == 0.0 {
            return 1.0;
        }
        let squared = variation * variation;
        let often = (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt()) / 2.0;
        let share = if uniform(cx) < often {
            often
        } else {
            1.0 - often
        };
        exponential(cx) / (2.0 * share)
    }
}

/// A number above 0 and at most 1.
fn uniform(cx: &Cx) -> f64 {
    const STEPS: u64 = 1 << 53;
    (cx.random_below(STEPS) + 1) as f64 / STEPS as f64
}

/// A number of mean 1, exponentially distributed.
fn exponential(cx: &Cx) -> f64 {
    -uniform(cx).ln()
}

/// A time, to the nanosecond.
fn scaled(mean: Nanos, scale: f64) -> Ticks {
    let time = Duration::from_nanos(mean.get()).mul_f64(scale);
    Ticks(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

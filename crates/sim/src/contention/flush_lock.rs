//! Flushing other CPUs' TLBs under `flush_lock`, in virtual time: the system of the change "do not enable global pages
//! when virtualized on AMD hardware" (xen-devel, v4).
//!
//! Source: xen/arch/x86/smp.c of 4.17.7, `flush_area_mask` and `invalidate_interrupt`. The caller flushes itself; if
//! others are meant it takes the one `flush_lock`, writes the mask, sends INVALIDATE_TLB, and spins until every CPU has
//! flushed and taken itself out of the mask. Flushing by a hypercall to the hypervisor below
//! (`hypervisor_flush_tlb`) came after the published figures and is not here.
//!
//! **What the model is.** A closed system: each vCPU computes for a while, flushes all others, and so on. Waiting,
//! the share of acquisitions that wait, and the slowing down of those that compute come out of the mechanism: one
//! ticket lock, and interrupts that stop whoever is not waiting. What goes in, and where it is from:
//!
//! | figure | kind | why |
//! |---|---|---|
//! | mean hold, PGE on and off | cited | 746,588 and 240,829 ns: the published averages, and all that is given of this publication |
//! | handling a flush by a CR3 write | assumed | a local flush, not trapped with nested paging; counts little |
//! | hold = sending + handling | assumed | sending 31 x2APIC interrupts traps alike in both settings, so what CR4.PGE adds to the hold is handling, and every target is stopped for as long |
//! | a hold's variation, compute time | fitted | to another publication on the same lock (below); the same for all settings |
//! | compute times are exponential | assumed | nothing but the mean is known, and it has little influence |
//!
//! The change says nothing of what its vCPUs did between flushes. A later one, "use APIC ALLBUT destination shorthand
//! when possible" (xen 5500d265a2a8, 2020), has two more profiles of `flush_lock`, of a PV shim with 32 vCPUs in x2APIC
//! mode as well, on a machine that is not named. With their own mean holds (347,577 and 220,395 ns, CR3 loaded) the
//! demand is the one with the least sum of squared errors, as `validate` tells them, of their four results. The four results of *this*
//! publication are predictions. Over two million flushes (`cargo run --release -p pagetoll-sim --example
//! flush_profile`; with `-- --fit`, the search):
//!
//! | | published | modelled | error |
//! |---|---|---|---|
//! | share blocked, no shorthand (fitted to) | 0.9013 | 0.9121 | +1.2 % |
//! | mean block, no shorthand (fitted to) | 2,702,251 ns | 3,280,482 ns | +21.4 % |
//! | share blocked, shorthand (fitted to) | 0.8800 | 0.6936 | -21.2 % |
//! | mean block, shorthand (fitted to) | 1,502,539 ns | 1,282,784 ns | -14.6 % |
//! | share blocked, PGE on | 0.9006 | 0.7405 | -17.8 % |
//! | mean block, PGE on | 6,145,148 ns | 5,805,856 ns | -5.5 % |
//! | share blocked, PGE off | 0.7471 | 0.7405 | -0.9 % |
//! | mean block, PGE off | 1,453,030 ns | 1,522,148 ns | +4.8 % |
//!
//! The mean block is met. The share is the same with PGE on and off, and it was not: those that compute are stopped while
//! others handle a flush, so a longer handling makes them ask later as well. The published shares hardly depend on the
//! hold (0.88 to 0.90 from 220 to 747 us, but for 0.75), which no demand of independent vCPUs gives: theirs came in bursts.
//!
//! Not here: vCPUs that leave the lock alone, flushes of fewer than all vCPUs (they are part of the variation), and
//! the time of the local flush before the lock is taken (it is part of computing).

pub mod lock_profile;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use pagetoll_engine::{
    CoreId, Cx, Engine, Ipi, IpiCosts, IpiTolls, RunError, Setup, SetupError, SpawnError,
    TicketCosts, TicketLock, Ticks, Toll, Tolls,
};
use pagetoll_units::Nanos;
use thiserror::Error;

use self::lock_profile::{LockProfile, Spent};
use crate::timeline::Timeline;
use pagetoll_models::x86::Tlb;
use pagetoll_models::xen::cr4::FullFlush;

/// vCPUs that a mask has room for.
const MOST_VCPUS: u32 = 64;

/// What a flush costs on a host. The first two are `flush.hold.pge-on` and `flush.hold.pge-off` of a host table, the
/// third is `flush.handle.cr3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushCosts {
    /// The mean time that `flush_lock` is held when a full flush toggles CR4.PGE.
    pub hold_pge_on: Nanos,
    /// The same when it loads CR3.
    pub hold_pge_off: Nanos,
    /// From a target's interrupt to its acknowledgement, when it loads CR3; at most the hold.
    pub handle_cr3: Nanos,
}

impl FlushCosts {
    /// The published host: a PV shim with 32 vCPUs on AMD, in x2APIC mode.
    #[must_use]
    pub const fn amd_pv_shim_32() -> Self {
        Self {
            hold_pge_on: Nanos(746_588),
            hold_pge_off: Nanos(240_829),
            handle_cr3: Nanos(2_000),
        }
    }

    /// Sending the interrupts to all targets, and how long each then handles its own.
    fn split(self, flush: FullFlush) -> Result<(Nanos, Nanos), FlushError> {
        let hold = match flush {
            FullFlush::Cr4Toggle => self.hold_pge_on,
            FullFlush::Cr3Write => self.hold_pge_off,
            FullFlush::Invpcid => return Err(FlushError::NoFigureForInvpcid),
        };
        let refused = FlushError::HoldTooShort { hold, costs: self };
        let sending = self.hold_pge_off.get().checked_sub(self.handle_cr3.get());
        let sending = sending.ok_or_else(|| refused.clone())?;
        let handling = hold.get().checked_sub(sending).ok_or(refused)?;
        Ok((Nanos(sending), Nanos(handling)))
    }
}

/// What the guest asks for: the same in all settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushDemand {
    /// The mean time that a vCPU computes between two flushes, not counting the time that it is stopped by others'.
    pub compute: Nanos,
    /// The standard deviation of a hold, as a multiple of its mean: 0, or at least 1.
    pub hold_variation: f64,
}

impl FlushDemand {
    /// Fitted to the profiles of another publication (xen 5500d265a2a8), each with its own mean hold.
    #[must_use]
    pub const fn fitted() -> Self {
        Self {
            compute: Nanos(8_500_000),
            hold_variation: 2.0,
        }
    }
}

/// Whether interrupts reach a vCPU while it waits for `flush_lock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsWith {
    /// As `flush_area_mask` asserts.
    #[default]
    InterruptsOn,
    /// Against the assertion: two vCPUs that flush at once wait for each other.
    InterruptsOff,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushSetup {
    /// vCPUs, each on a core of its own: 2 to 64.
    pub vcpus: u32,
    /// Flushes in all.
    pub flushes: u64,
    /// What a full flush is, as [`FullFlush::with_cr4`] says.
    pub flush: FullFlush,
    /// What is asked for.
    pub demand: FlushDemand,
    /// How `flush_lock` is waited for.
    pub waits: WaitsWith,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FlushError {
    /// More vCPUs than a mask holds, or nobody to flush.
    #[error("{0} vCPUs: expected 2 to {MOST_VCPUS}")]
    VcpusOutOfRange(u32),
    /// A mean hold that is shorter than what it consists of.
    #[error("a mean hold of {hold} is shorter than what it consists of, given {costs:?}")]
    HoldTooShort {
        /// The mean hold.
        hold: Nanos,
        /// The costs it is one of.
        costs: FlushCosts,
    },
    /// Host tables have no figure for this kind of flush.
    #[error("no host table says what a flush by INVPCID costs")]
    NoFigureForInvpcid,
    /// A variation that no distribution here has.
    #[error("a hold's variation of {0}: expected 0, or 1 to 10")]
    VariationOutOfRange(f64),
    /// The engine cannot be built so.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A vCPU cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The vCPUs wait for each other, or the model misuses the engine.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs vCPUs that flush each other and gives the profile of `flush_lock`. The same for the same arguments.
///
/// # Errors
///
/// Costs or a setup that make no sense; a deadlock, with who waits for whom.
pub fn run(costs: FlushCosts, setup: FlushSetup, seed: u64) -> Result<LockProfile, FlushError> {
    let (mut engine, shim) = build(costs, setup, seed)?;
    engine.run()?;
    Ok(shim.profile.take())
}

/// Runs the same and gives what each vCPU paid and when.
///
/// # Errors
///
/// As [`run`].
pub fn record(costs: FlushCosts, setup: FlushSetup, seed: u64) -> Result<Timeline, FlushError> {
    let (mut engine, _) = build(costs, setup, seed)?;
    engine.run()?;
    Ok(Timeline::of(&engine))
}

/// An engine with the vCPUs on it, and what they share.
fn build(
    costs: FlushCosts,
    setup: FlushSetup,
    seed: u64,
) -> Result<(Engine, Rc<Shim>), FlushError> {
    let vcpus = setup.vcpus;
    if !(2..=MOST_VCPUS).contains(&vcpus) {
        return Err(FlushError::VcpusOutOfRange(vcpus));
    }
    let variation = setup.demand.hold_variation;
    if variation != 0.0 && !(1.0..=10.0).contains(&variation) {
        return Err(FlushError::VariationOutOfRange(variation));
    }
    let cost = costs.split(setup.flush)?;
    let (names, tolls) = FlushTolls::register();
    let engine_setup = Setup {
        tasks: vcpus,
        cores: vcpus,
        seed,
        ..Setup::default()
    };
    let mut engine = Engine::new(&engine_setup, names)?;
    let shim = Rc::new(Shim::new(&engine, tolls, (setup, cost)));
    for vcpu in 0..vcpus {
        let shim = Rc::clone(&shim);
        engine.spawn(&format!("vcpu {vcpu}"), CoreId(vcpu), async move |cx| {
            shim.work(&cx).await;
        })?;
    }
    Ok((engine, shim))
}

/// What the time of a run is charged under.
#[derive(Clone, Copy)]
struct FlushTolls {
    compute: Toll,
    spin: Toll,
    ipi_send: Toll,
    ipi_wait: Toll,
    handle: Toll,
}

impl FlushTolls {
    fn register() -> (Tolls, Self) {
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
struct CpuMask(u64);

impl CpuMask {
    fn first(count: u32) -> Self {
        Self(u64::MAX >> (MOST_VCPUS - count))
    }

    fn without(self, cpu: u32) -> Self {
        Self(self.0 & !(1 << cpu))
    }

    fn cpus(self) -> impl Iterator<Item = u32> {
        (0..MOST_VCPUS).filter(move |cpu| self.0 >> cpu & 1 == 1)
    }
}

/// What the vCPUs share.
struct Shim {
    setup: FlushSetup,
    tolls: FlushTolls,
    /// Mean times for sending and handling.
    cost: (Nanos, Nanos),
    flush_lock: TicketLock,
    invalidate_tlb: Ipi,
    flush_cpumask: Cell<CpuMask>,
    /// By vCPU.
    tlbs: RefCell<Vec<Tlb>>,
    /// Flushes that have begun.
    begun: Cell<u64>,
    profile: Profile,
}

/// The profile as it grows.
#[derive(Default)]
struct Profile {
    lock: Cell<Spent>,
    block: Cell<Spent>,
}

impl Profile {
    fn take(&self) -> LockProfile {
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
    fn new(
        engine: &Engine,
        tolls: FlushTolls,
        (setup, cost): (FlushSetup, (Nanos, Nanos)),
    ) -> Self {
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
            cost,
            flush_lock: TicketLock::new(handle, "flush_lock", tolls.spin, hand_off),
            invalidate_tlb: Ipi::new(handle, "INVALIDATE_TLB", ipi, IpiCosts::default()),
            flush_cpumask: Cell::default(),
            tlbs: RefCell::new(vec![Tlb::default(); setup.vcpus as usize]),
            begun: Cell::new(0),
            profile: Profile::default(),
        }
    }

    /// A vCPU's life.
    async fn work(&self, cx: &Cx) {
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
    async fn flush_area_mask(&self, cx: &Cx, mask: CpuMask) {
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
        let (sending, handling) = self.cost;
        let scale = self.hold_scale(cx);
        cx.charge(self.tolls.ipi_send, scaled(sending, scale)).await;
        let targets: Vec<_> = self.flush_cpumask.get().cpus().map(CoreId).collect();
        let handling = scaled(handling, scale);
        self.invalidate_tlb
            .send_and_wait(cx, &targets, handling)
            .await;
        targets
            .iter()
            .for_each(|target| self.invalidate_interrupt(target.0));
        debug_assert_eq!(self.flush_cpumask.get(), CpuMask::default());
    }

    /// What a target does; its time is the interrupt's.
    fn invalidate_interrupt(&self, cpu: u32) {
        self.flush_area_local(cpu);
        self.flush_cpumask
            .set(self.flush_cpumask.get().without(cpu));
    }

    fn flush_area_local(&self, cpu: u32) {
        self.tlbs.borrow_mut()[cpu as usize].flush_all();
    }

    /// How much longer than the mean a hold is: always 1, or exponential, or one of two exponential ones whose shares
    /// of the time are equal (balanced means, as in Allen, "Probability, Statistics, and Queueing Theory", 1990).
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

#[cfg(test)]
mod tests {
    use pagetoll_bill::cost::published::error_of;
    use pagetoll_engine::RunError;
    use pagetoll_traces::folded::write_folded;
    use pagetoll_traces::perfetto::write_perfetto;
    use pagetoll_units::{Mfn, VirtualAddress};

    use super::*;
    use pagetoll_models::x86::{Flags, Pcid, Translation};

    fn setup(flush: FullFlush, flushes: u64) -> FlushSetup {
        FlushSetup {
            vcpus: 32,
            flushes,
            flush,
            demand: FlushDemand::fitted(),
            waits: WaitsWith::InterruptsOn,
        }
    }

    fn profile(setup: FlushSetup, seed: u64) -> LockProfile {
        run(FlushCosts::amd_pv_shim_32(), setup, seed).unwrap()
    }

    fn within(modelled: f64, published: f64, tolerance: f64) {
        let error = modelled / published - 1.0;
        assert!(error.abs() < tolerance, "{modelled} instead of {published}");
    }

    /// What was published, and how far a prediction may be off.
    fn predicts(flush: FullFlush, (hold, share, block): (f64, f64, f64)) {
        let profile = profile(setup(flush, 60_000), 1);
        within(profile.lock.mean(), hold, 0.03);
        within(profile.share_blocked(), share, 0.25);
        within(profile.block.mean(), block, 0.25);
    }

    /// Only the mean holds are of this publication; the demand was fitted to another.
    #[test]
    fn what_was_published_is_predicted_with_and_without_global_pages() {
        let share_on = 1_658_716.0 / 1_841_883.0;
        predicts(FullFlush::Cr4Toggle, (746_588.0, share_on, 6_145_147.0));
        let share_off = 2_039_716.0 / 2_730_175.0;
        predicts(FullFlush::Cr3Write, (240_829.0, share_off, 1_453_029.0));
    }

    /// The sum of squared errors, as `validate` tells them, of the four results that the demand was fitted to.
    fn squared_errors(demand: FlushDemand) -> f64 {
        let of = |hold, share: f64, block: f64| {
            let costs = FlushCosts {
                hold_pge_off: Nanos(hold),
                ..FlushCosts::amd_pv_shim_32()
            };
            let setup = FlushSetup {
                demand,
                ..setup(FullFlush::Cr3Write, 30_000)
            };
            let profile = run(costs, setup, 1).unwrap();
            error_of(profile.share_blocked(), share).powi(2)
                + error_of(profile.block.mean(), block).powi(2)
        };
        of(347_577, 0.90131, 2_702_251.0) + of(220_395, 0.88004, 1_502_539.0)
    }

    #[test]
    fn demands_around_the_fitted_one_fit_worse() {
        let fitted = FlushDemand::fitted();
        let least = squared_errors(fitted);
        for (compute, variation) in [
            (6_500_000, 2.0),
            (10_500_000, 2.0),
            (8_500_000, 1.4),
            (8_500_000, 2.8),
        ] {
            let other = FlushDemand {
                compute: Nanos(compute),
                hold_variation: variation,
            };
            let errors = squared_errors(other);
            assert!(
                errors > 1.1 * least,
                "{other:?}: {errors}, not above {least}"
            );
        }
    }

    #[test]
    fn runs_repeat_and_the_seed_decides() {
        let setup = setup(FullFlush::Cr4Toggle, 2000);
        assert_eq!(profile(setup, 7), profile(setup, 7));
        assert_ne!(profile(setup, 7), profile(setup, 8));
    }

    /// An oracle that can be worked out: two vCPUs that compute nothing and hold for the same time take turns.
    #[test]
    fn two_that_compute_nothing_take_turns() {
        let demand = FlushDemand {
            compute: Nanos(0),
            hold_variation: 0.0,
        };
        let turns = FlushSetup {
            vcpus: 2,
            demand,
            ..setup(FullFlush::Cr3Write, 1000)
        };
        let profile = profile(turns, 0);
        let hold = 240_829;
        assert_eq!(
            profile.lock,
            Spent {
                count: 1000,
                time: 1000 * hold
            }
        );
        // Who waits is interrupted, which does not make it wait any longer.
        assert_eq!(
            profile.block,
            Spent {
                count: 999,
                time: 999 * hold
            }
        );
    }

    /// What computes is stopped for as long as each flush is handled.
    #[test]
    fn those_that_compute_are_slowed_down_by_others() {
        let demand = FlushDemand {
            compute: Nanos(5_000_000),
            hold_variation: 0.0,
        };
        let slow = |flush| {
            let setup = FlushSetup {
                demand,
                ..setup(flush, 3000)
            };
            let (mut engine, _) = build(FlushCosts::amd_pv_shim_32(), setup, 3).unwrap();
            let end = engine.run().unwrap();
            let handle = engine
                .tolls()
                .iter()
                .find(|toll| toll.1 == "invalidate_interrupt")
                .unwrap()
                .0;
            let handled = engine.total(engine.interrupts_of(CoreId(0)), handle);
            (end.get(), handled.ticks.get())
        };
        let ((on, handled_on), (off, handled_off)) =
            (slow(FullFlush::Cr4Toggle), slow(FullFlush::Cr3Write));
        assert!(on > 2 * off, "{on} {off}");
        assert!(handled_on > 200 * handled_off, "{handled_on} {handled_off}");
    }

    /// By vCPU, whether its TLB still has a translation after vCPU 3 has flushed those in `mask`.
    fn known_after(mask: CpuMask) -> Vec<bool> {
        let here = VirtualAddress(0x1000);
        let (names, tolls) = FlushTolls::register();
        let mut engine = Engine::new(&Setup::default(), names).unwrap();
        let cost = (Nanos(10), Nanos(5));
        let shim = Rc::new(Shim::new(
            &engine,
            tolls,
            (setup(FullFlush::Cr4Toggle, 1), cost),
        ));
        let (mfn, flags) = (Mfn(5), Flags::PRESENT | Flags::GLOBAL);
        for tlb in &mut *shim.tlbs.borrow_mut() {
            tlb.fill(Pcid(0), here, Translation { mfn, flags });
        }
        let task = Rc::clone(&shim);
        let body = async move |cx| task.flush_area_mask(&cx, mask).await;
        engine.spawn("vcpu 3", CoreId(3), body).unwrap();
        engine.run().unwrap();
        let tlbs = shim.tlbs.borrow();
        let knows = |tlb: &Tlb| tlb.look_up(Pcid(0), here).is_some();
        tlbs.iter().map(knows).collect()
    }

    #[test]
    fn those_in_the_mask_forget_and_others_do_not() {
        assert_eq!(known_after(CpuMask::first(32)), [false; 32]);
        let some = known_after(CpuMask(0b1_0010));
        let known: Vec<_> = some.iter().map(|&known| u8::from(known)).collect();
        assert_eq!(known[..6], [1, 0, 1, 1, 0, 1]);
        assert_eq!(known[6..], [1; 26]);
    }

    #[test]
    fn waiting_with_interrupts_off_is_a_deadlock_that_names_who_waits_for_whom() {
        let off = FlushSetup {
            waits: WaitsWith::InterruptsOff,
            ..setup(FullFlush::Cr4Toggle, 1000)
        };
        let error = run(FlushCosts::amd_pv_shim_32(), off, 1).unwrap_err();
        assert!(matches!(error, FlushError::Run(RunError::Deadlock(_))));
        let text = error.to_string();
        assert!(
            text.contains("waits for ticket lock `flush_lock`, held by vcpu"),
            "{text}"
        );
        assert!(
            text.contains("waits for acknowledgements of interrupt `INVALIDATE_TLB`, held by vcpu"),
            "{text}"
        );
        assert!(text.contains("cycle: vcpu"), "{text}");
    }

    /// What was recorded of a run can be shown: nobody pays for two things at once.
    #[test]
    fn records_become_a_trace() {
        let setup = setup(FullFlush::Cr4Toggle, 200);
        let timeline = record(FlushCosts::amd_pv_shim_32(), setup, 1).unwrap();
        let (legend, spans) = (timeline.legend().unwrap(), timeline.spans.iter().copied());
        write_perfetto(Vec::new(), ("flush", &legend), spans.clone()).unwrap();
        let mut folded = Vec::new();
        write_folded(&mut folded, &legend, spans).unwrap();
        let folded = String::from_utf8(folded).unwrap();
        for stack in ["vcpu 0;flush_lock ", "core 31;invalidate_interrupt "] {
            assert!(
                folded.lines().any(|line| line.starts_with(stack)),
                "{folded}"
            );
        }
        assert_eq!(timeline.overwritten, 0);
    }

    #[test]
    fn senseless_figures_are_refused() {
        let sound = (
            FlushCosts::amd_pv_shim_32(),
            setup(FullFlush::Cr4Toggle, 10),
        );
        let message = |costs, setup| run(costs, setup, 0).unwrap_err().to_string();
        let one = FlushSetup {
            vcpus: 1,
            ..sound.1
        };
        assert_eq!(message(sound.0, one), "1 vCPUs: expected 2 to 64");
        let short = FlushCosts {
            hold_pge_on: Nanos(100),
            ..sound.0
        };
        assert!(message(short, sound.1).starts_with("a mean hold of 100 ns is shorter than"));
        let invpcid = FlushSetup {
            flush: FullFlush::Invpcid,
            ..sound.1
        };
        assert!(message(sound.0, invpcid).contains("INVPCID"));
        let demand = FlushDemand {
            hold_variation: 0.5,
            ..sound.1.demand
        };
        let vary = FlushSetup { demand, ..sound.1 };
        assert_eq!(
            message(sound.0, vary),
            "a hold's variation of 0.5: expected 0, or 1 to 10"
        );
    }
}

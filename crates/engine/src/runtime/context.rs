//! Interface of a task to the engine: [`Cx`], its charges and its sleeps.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rand_core::Rng;

use crate::ids::{CoreId, TaskId, Toll};
use crate::queue::front::Timer;
use crate::queue::timers::TimerQueue;
use crate::runtime::error::{Misuse, SpawnError};
use crate::runtime::executor::Handle;
use crate::runtime::ipi::InterruptMask;
use crate::runtime::kernel::{Kernel, LONG};
use crate::runtime::node::{Status, WaitFor};
use crate::runtime::record::{Account, OpenToll, Payment};
use crate::time::{Ticks, Time};

/// One task's access to its engine, given to it when it starts.
///
/// A task waits in one place at a time: joining or racing two of its futures ends the run with
/// [`Misuse::TwoWaits`]; spawn another task instead. (Where nothing else can happen meanwhile, a
/// charge is over as soon as it is polled, and there is nothing to be misused.)
pub struct Cx {
    handle: Handle,
    status: Rc<Status>,
    task: u32,
    accounts: Account,
}

impl Cx {
    pub(crate) fn new(handle: Handle, task: TaskId) -> Self {
        let status = Rc::clone(&handle.0.statuses[task.index()]);
        let accounts = handle.0.ledger.accounts_of(task.0);
        Self {
            handle,
            status,
            task: task.0,
            accounts,
        }
    }

    #[inline]
    pub(crate) fn kernel(&self) -> &Rc<Kernel> {
        &self.handle.0
    }

    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.task
    }

    #[inline]
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// The engine, to make primitives with.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The id that `spawn` returned.
    #[must_use]
    pub fn task(&self) -> TaskId {
        TaskId(self.task)
    }

    /// The core that this task runs on.
    #[must_use]
    pub fn core(&self) -> CoreId {
        self.kernel().core_of(self.task)
    }

    /// Virtual time now.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Time {
        self.kernel().now()
    }

    /// A number below `bound` (0 if that is 0), drawn from the engine's seed.
    #[must_use]
    pub fn random_below(&self, bound: u64) -> u64 {
        let draw = u128::from(self.kernel().random.borrow_mut().next_u64());
        // Lemire's multiply-shift; the bias is below bound / 2^64.
        u64::try_from((draw * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Computes for `ticks` on the task's core, and records them under `toll`.
    ///
    /// Interrupts that the core handles meanwhile come on top; they are recorded with the core.
    #[inline]
    pub fn charge(&self, toll: Toll, ticks: Ticks) -> Charge<'_> {
        Charge {
            cx: self,
            toll,
            ticks,
        }
    }

    /// Leaves the core, and comes back `ticks` later as soon as the core is free.
    pub async fn sleep(&self, ticks: Ticks) {
        match self.now().checked_add(ticks) {
            Some(until) => self.sleep_until(until).await,
            None => {
                self.kernel().fail(self.task, Misuse::TimeOverflow);
                ParkFuture::new().await;
            }
        }
    }

    /// Leaves the core, and comes back at `until` (at once if that is over) as soon as the core is
    /// free.
    pub async fn sleep_until(&self, until: Time) {
        if self.kernel().sleep(self.task, WaitFor::SLEEP) {
            self.kernel()
                .resume_after(self.task, until.since(self.now()));
        }
        self.sleep_here().await;
    }

    /// Lets the other tasks that queue for this core run first; nothing if there are none.
    pub async fn yield_core(&self) {
        if self.kernel().yield_core(self.task) {
            ParkFuture::new().await;
        }
    }

    /// Keeps interrupts away from this core until the mask is dropped. The task must not sleep
    /// meanwhile.
    pub fn mask_interrupts(&self) -> InterruptMask<'_> {
        InterruptMask::new(self)
    }

    /// Starts another task on `core`, after everything that is ready now.
    ///
    /// # Errors
    ///
    /// If the engine has no room for another task, or no such core.
    pub fn spawn<F, T>(&self, name: &str, core: CoreId, body: F) -> Result<TaskId, SpawnError>
    where
        F: FnOnce(Cx) -> T,
        T: Future<Output = ()> + 'static,
    {
        self.handle.spawn(name, core, body)
    }

    /// Suspends the task, which must be in a queue or list that resumes it, and returns when
    /// it has its core again.
    pub(crate) async fn sleep_here(&self) {
        ParkFuture::new().await;
        self.enter_core().await;
    }

    /// Waits for the core after a sleep.
    #[inline]
    pub(crate) async fn enter_core(&self) {
        if !self.kernel().enter_core(self.task) {
            self.kernel().suspend(self.task, WaitFor::CORE);
            ParkFuture::new().await;
        }
    }

    /// Starts `ticks` of computing, which are recorded in `account` when they are over: whether they
    /// are already.
    // A call of its own: inlined into every charge of a task's code it costs more than it saves. What
    // happens less often is left to calls with the same arguments: they are jumps.
    #[inline(never)]
    pub(crate) fn start_charge(&self, ticks: Ticks, account: Account) -> bool {
        if self.status.wait.get() != WaitFor::RUNNING || ticks.0.wrapping_sub(1) >= LONG - 1 {
            return self.start_rare_charge(ticks, account);
        }
        let Some(due) = self.now().checked_add(ticks) else {
            return self.start_rare_charge(ticks, account);
        };
        let Kernel { timers, ready, .. } = &**self.kernel();
        match timers.queue() {
            TimerQueue::Front(front) => {
                if ready.is_empty() && front.is_after(due) {
                    return self.skip_charge(ticks, account);
                }
                let timer = Timer {
                    at: due.0,
                    id: self.task,
                };
                if !front.push(timer) {
                    return self.start_timed_charge(ticks, account);
                }
            }
            TimerQueue::Wheel(wheel) => {
                let Some(near) = wheel.near(due.0) else {
                    return self.start_distant_charge(ticks, account);
                };
                if ready.is_empty() && wheel.is_before_all(near) {
                    return self.skip_charge(ticks, account);
                }
                if !wheel.push(near, self.task) {
                    return self.start_timed_charge(ticks, account);
                }
            }
        }
        self.status.compute(due, Payment::new(account, ticks.0));
        false
    }

    /// Lets the time of a charge pass during which nothing else happens.
    #[inline(never)]
    fn skip_charge(&self, ticks: Ticks, account: Account) -> bool {
        let Kernel { timers, ledger, .. } = &**self.kernel();
        let due = timers.now.get() + ticks;
        timers.now.set(due);
        ledger.record(due, Payment::new(account, ticks.0));
        // As for `start_timed_charge`: this is true.
        self.status.wait.get().is_running()
    }

    /// [`Cx::start_charge`] of a charge that has to wait, whose timer does not go to the end of a queue.
    #[inline(never)]
    fn start_timed_charge(&self, ticks: Ticks, account: Account) -> bool {
        let due = self.now() + ticks;
        self.status.compute(due, Payment::new(account, ticks.0));
        self.kernel().timers.start(self.task, due);
        // False. A constant would be known to the caller, which would then call instead of jump.
        self.status.wait.get().is_running()
    }

    /// [`Cx::start_charge`] of a charge that ends in more than the wheel's near future.
    #[inline(never)]
    fn start_distant_charge(&self, ticks: Ticks, account: Account) -> bool {
        let (due, paid) = (self.now() + ticks, Payment::new(account, ticks.0));
        self.kernel()
            .charge_until(self.task, &self.status, due, paid)
    }

    /// [`Cx::start_charge`] of no ticks, of many, or where the task is not just running.
    #[cold]
    #[inline(never)]
    fn start_rare_charge(&self, ticks: Ticks, account: Account) -> bool {
        self.kernel()
            .start_rare_charge(self.task, &self.status, ticks, Payment::open(account))
    }

    /// Starts `ticks` of computing that is not recorded: whether they are over already.
    pub(crate) fn start_unrecorded(&self, ticks: Ticks) -> bool {
        self.kernel()
            .start_rare_charge(self.task, &self.status, ticks, Payment::NOTHING)
    }

    /// Suspends the task, which must be [running](WaitFor::is_running), for `wait`, and has the time
    /// until it is resumed recorded under the toll.
    #[inline]
    pub(crate) fn suspend_paying(&self, wait: WaitFor, toll: OpenToll) {
        self.status.wait.set(wait);
        self.status.paid.set(toll.paid_by(self.accounts));
        self.status.since.set(self.now());
    }

    /// Writes `ticks` that have passed into the ledger.
    #[inline]
    pub(crate) fn record(&self, toll: Toll, ticks: Ticks) {
        self.kernel()
            .ledger
            .record_span(self.now(), ticks, self.accounts.with_toll(toll));
    }

    /// True if `kernel` is this task's; a fault if not.
    #[inline]
    pub(crate) fn is_of(&self, kernel: &Rc<Kernel>, title: impl FnOnce() -> String) -> bool {
        let same = Rc::ptr_eq(kernel, self.kernel());
        if !same {
            self.refuse_foreign(title);
        }
        same
    }

    #[cold]
    #[inline(never)]
    fn refuse_foreign(&self, title: impl FnOnce() -> String) {
        self.kernel()
            .fail(self.task, Misuse::ForeignPrimitive(title()));
    }
}

/// Future of [`Cx::charge`].
// Not a future itself: what a task keeps while it computes is one byte, not all of this.
#[must_use = "nothing is charged until it is awaited"]
pub struct Charge<'a> {
    cx: &'a Cx,
    toll: Toll,
    ticks: Ticks,
}

impl IntoFuture for Charge<'_> {
    type Output = ();
    type IntoFuture = ChargeFuture;

    #[inline(always)]
    fn into_future(self) -> ChargeFuture {
        ChargeFuture {
            over: self
                .cx
                .start_charge(self.ticks, self.cx.accounts.with_toll(self.toll)),
        }
    }
}

/// The future of a [`Charge`] that has begun.
#[must_use = "the charge has begun, and the task waits for its end"]
pub struct ChargeFuture {
    over: bool,
}

impl Future for ChargeFuture {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.over, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Stays pending once: until the resource that the task waits for resumes it.
pub(crate) struct ParkFuture(bool);

impl ParkFuture {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(false)
    }
}

impl Future for ParkFuture {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

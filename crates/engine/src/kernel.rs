//! The state behind an engine: clock, ready ring, timers, tasks, cores and the ledger.
//!
//! Everything is interior-mutable and single-threaded: tasks reach it through their `Cx` while the
//! executor polls them. A task that is suspended is in exactly one of these places: the ready ring,
//! the timer queue, the list of a primitive or the queue of its core (and, for a wait with a
//! timeout, in a primitive and the timer queue).

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256StarStar;

use crate::cores::Core;
use crate::deadlock::Resource;
use crate::error::{Misuse, SpawnError};
use crate::executor::Setup;
use crate::ids::{CoreId, NONE, TaskId};
use crate::ipi::Outstanding;
use crate::node::{Node, Status, WaitFor};
use crate::ready::Ready;
use crate::record::{Account, Ledger};
use crate::time::{Ticks, Time};
use crate::timers::Timers;

/// A task's future, boxed once.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// [`Kernel::current`] after a misuse: no task may suspend any more.
const FAULTED: u32 = NONE - 1;

/// A task's name and whether it has finished.
pub(crate) struct TaskInfo {
    pub(crate) name: String,
    pub(crate) done: bool,
}

pub(crate) struct Kernel {
    /// The task being polled, until it suspends.
    current: Cell<u32>,
    pub(crate) ready: Ready,
    pub(crate) timers: Timers,
    /// By task.
    pub(crate) nodes: Box<[Node]>,
    /// By task.
    pub(crate) statuses: Box<[Rc<Status>]>,
    pub(crate) ledger: Ledger,
    pub(crate) cores: Box<[Core]>,
    pub(crate) outstanding: Box<[Outstanding]>,
    pub(crate) capacity: u32,
    pub(crate) tasks: RefCell<Vec<TaskInfo>>,
    /// Tasks that have not finished.
    alive: Cell<u32>,
    /// Spawned and not yet taken over by the executor.
    pub(crate) spawned: RefCell<Vec<(TaskId, TaskFuture)>>,
    pub(crate) resources: RefCell<Vec<Weak<dyn Resource>>>,
    pub(crate) fault: RefCell<Option<(u32, Time, Misuse)>>,
    pub(crate) random: RefCell<Xoshiro256StarStar>,
}

impl Kernel {
    pub(crate) fn new(setup: &Setup, tolls: usize) -> Self {
        let actors = (setup.tasks + setup.cores) as usize;
        Self {
            current: Cell::new(NONE),
            ready: Ready::new(actors + 1),
            timers: Timers::new(setup.queue, actors + 1),
            nodes: (0..setup.tasks).map(|_| Node::new()).collect(),
            statuses: (0..setup.tasks).map(|_| Rc::new(Status::new())).collect(),
            ledger: Ledger::new(actors, tolls, setup.records),
            cores: (0..setup.cores).map(|_| Core::new()).collect(),
            outstanding: (0..setup.tasks).map(|_| Outstanding::default()).collect(),
            capacity: setup.tasks,
            tasks: RefCell::default(),
            alive: Cell::new(0),
            spawned: RefCell::default(),
            resources: RefCell::default(),
            fault: RefCell::default(),
            random: RefCell::new(Xoshiro256StarStar::seed_from_u64(setup.seed)),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.timers.now.get()
    }

    #[inline]
    pub(crate) fn node(&self, task: u32) -> &Node {
        &self.nodes[task as usize]
    }

    #[inline]
    pub(crate) fn status(&self, task: u32) -> &Status {
        &self.statuses[task as usize]
    }

    #[inline]
    pub(crate) fn core_of(&self, task: u32) -> CoreId {
        CoreId(self.node(task).core.get())
    }

    /// Takes the next task to poll, advancing the clock if none is ready now.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        if let Some(task) = self.ready.pop() {
            return Some(task);
        }
        self.timers.pop(&self.ready)
    }

    /// The id whose timer marks the limit of a run.
    pub(crate) fn limit_id(&self) -> u32 {
        u32::try_from(self.statuses.len() + self.cores.len()).unwrap_or(NONE)
    }

    /// Lets [`Kernel::limit_id`] come up at `limit`, or now if that is over.
    pub(crate) fn set_limit(&self, limit: Time) {
        if limit < Time::MAX && self.alive.get() > 0 {
            self.timers.insert(self.limit_id(), limit.max(self.now()));
        }
    }

    /// Takes back [`Kernel::set_limit`].
    pub(crate) fn clear_limit(&self) {
        self.timers.cancel(self.limit_id());
    }

    /// Names the task that is about to be polled.
    #[inline]
    pub(crate) fn begin_poll(&self, task: u32) {
        self.current.set(task);
    }

    /// Whether the task just polled has suspended in one place of this engine, as it must.
    #[inline]
    pub(crate) fn suspended_well(&self) -> bool {
        self.current.get() == NONE
    }

    /// Forgets the task just polled; whether it left without waiting anywhere, as it must at its end.
    pub(crate) fn end_poll(&self, task: u32) -> bool {
        self.current.replace(NONE) == task
    }

    /// Notes that `task` now waits; `false` (and a fault) if it may not.
    #[inline]
    pub(crate) fn suspend(&self, task: u32, wait: WaitFor) -> bool {
        if self.current.get() != task {
            self.fail(task, Misuse::TwoWaits);
            return false;
        }
        self.current.set(NONE);
        let status = self.status(task);
        status.wait.set(wait);
        status.account.set(Account::NOWHERE);
        true
    }

    /// Like [`Kernel::suspend`], with the time until the task is resumed recorded in its account.
    #[inline]
    pub(crate) fn suspend_paying(
        &self,
        task: u32,
        status: &Status,
        (wait, account): (WaitFor, Account),
    ) -> bool {
        if self.current.get() != task {
            self.fail(task, Misuse::TwoWaits);
            return false;
        }
        self.current.set(NONE);
        status.wait.set(wait);
        status.account.set(account);
        status.since.set(self.now());
        true
    }

    /// Records the wait that has just ended, if that is to be.
    #[inline]
    pub(crate) fn settle(&self, status: &Status) {
        let account = status.account.get();
        if account != Account::NOWHERE {
            let ticks = self.now() - status.since.get();
            self.ledger.record(self.now(), ticks, account);
        }
    }

    /// Stops the run after the current poll, with the first misuse as its error.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&self, task: u32, misuse: Misuse) {
        self.fault
            .borrow_mut()
            .get_or_insert((task, self.now(), misuse));
        self.current.set(FAULTED);
    }

    /// Lets a suspended task go on now, after everything that is ready already.
    #[inline]
    pub(crate) fn resume(&self, task: u32) {
        self.ready.push(task);
    }

    /// Lets a suspended task go on in `delay`.
    #[inline]
    pub(crate) fn resume_after(&self, task: u32, delay: Ticks) {
        if delay == Ticks::ZERO {
            return self.resume(task);
        }
        match self.now().checked_add(delay) {
            Some(due) => self.timers.insert(task, due),
            None => self.fail(task, Misuse::TimeOverflow),
        }
    }

    /// Starts `ticks` of computing on the core of `task`: `true` if they are over already (because
    /// there are none, or nothing else can happen meanwhile), `false` if the task is suspended.
    #[inline]
    pub(crate) fn start_charge(
        &self,
        task: u32,
        status: &Status,
        (ticks, account): (Ticks, Account),
    ) -> bool {
        let now = self.now();
        let start = now.max(status.stalled_until.get());
        let (true, Some(due)) = (self.current.get() == task, start.checked_add(ticks)) else {
            return self.refuse_charge(task);
        };
        status.compute(start, account);
        if due == now {
            return self.is_over(status);
        }
        if !self.timers.are_few() {
            return self.start_among_many(task, status, due);
        }
        if self.ready.is_empty() && self.timers.few_after(due) {
            self.timers.now.set(due);
            return self.is_over(status);
        }
        self.current.set(NONE);
        self.timers.insert_few(task, due);
        false
    }

    /// The rest of [`Kernel::start_charge`] where there are many timers. Apart, so that neither needs
    /// much stack.
    #[inline(never)]
    fn start_among_many(&self, task: u32, status: &Status, due: Time) -> bool {
        let Some(wheel) = self.timers.many() else {
            return self.start_on_reference(task, status, due);
        };
        if self.ready.is_empty() {
            if wheel.is_far() {
                return self.start_far_away(task, status, due);
            }
            if wheel.near_is_after(due.0) {
                self.timers.now.set(due);
                return self.is_over(status);
            }
        }
        self.current.set(NONE);
        wheel.insert(task, due.0);
        false
    }

    /// The rest of [`Kernel::start_charge`] where nothing else happens soon.
    #[inline(never)]
    fn start_far_away(&self, task: u32, status: &Status, due: Time) -> bool {
        if self
            .timers
            .many()
            .is_some_and(|wheel| wheel.is_after(due.0))
        {
            self.timers.now.set(due);
            return self.is_over(status);
        }
        self.current.set(NONE);
        self.timers.insert(task, due);
        false
    }

    /// The rest of [`Kernel::start_charge`] with the reference queue.
    #[cold]
    #[inline(never)]
    fn start_on_reference(&self, task: u32, status: &Status, due: Time) -> bool {
        if self.ready.is_empty() && self.timers.reference.is_after(due) {
            self.timers.now.set(due);
            return self.is_over(status);
        }
        self.current.set(NONE);
        self.timers.reference.insert(task, due);
        false
    }

    /// Records a charge that is over as soon as it has started.
    #[inline(never)]
    fn is_over(&self, status: &Status) -> bool {
        self.settle(status);
        true
    }

    /// Says why a charge cannot start. Apart, so that those that can need no stack.
    #[cold]
    #[inline(never)]
    fn refuse_charge(&self, task: u32) -> bool {
        let waits = self.current.get() != task;
        self.fail(
            task,
            if waits {
                Misuse::TwoWaits
            } else {
                Misuse::TimeOverflow
            },
        );
        false
    }

    /// Whether `task` may give up its core; a fault if not.
    pub(crate) fn may_sleep(&self, task: u32) -> bool {
        let atomic = self.status(task).atomic.get() != 0;
        if atomic {
            self.fail(task, Misuse::SleepsInAtomic);
        }
        !atomic
    }

    /// Adds something that tasks can wait for, and returns how a waiting task names it.
    pub(crate) fn register(self: &Rc<Self>, resource: Weak<dyn Resource>) -> WaitFor {
        let mut resources = self.resources.borrow_mut();
        resources.push(resource);
        WaitFor::resource(u32::try_from(resources.len() - 1).unwrap_or(NONE >> 1))
    }

    /// Enters a task and puts it onto its core or into the core's queue.
    pub(crate) fn spawn(&self, name: String, core: CoreId) -> Result<TaskId, SpawnError> {
        let mut tasks = self.tasks.borrow_mut();
        let task = u32::try_from(tasks.len()).unwrap_or(NONE);
        if task >= self.capacity {
            return Err(SpawnError::Full(self.capacity));
        }
        let cores = u32::try_from(self.cores.len()).unwrap_or(NONE);
        if core.0 >= cores {
            return Err(SpawnError::NoSuchCore { core, cores });
        }
        tasks.push(TaskInfo { name, done: false });
        self.alive.set(self.alive.get() + 1);
        self.node(task).core.set(core.0);
        if self.enter_core(task) {
            self.resume(task);
        } else {
            self.status(task).wait.set(WaitFor::CORE);
        }
        Ok(TaskId(task))
    }

    /// Ends a task: its core goes to the next one.
    pub(crate) fn finish(&self, task: u32) {
        if let Some(info) = self.tasks.borrow_mut().get_mut(task as usize) {
            info.done = true;
        }
        self.leave_core(task);
        self.alive.set(self.alive.get() - 1);
        if self.alive.get() == 0 {
            self.clear_limit();
        }
    }

    /// How a task or a core's interrupts are called.
    pub(crate) fn name(&self, actor: u32) -> String {
        match self.tasks.borrow().get(actor as usize) {
            Some(info) => info.name.clone(),
            None => format!("core {}", actor.saturating_sub(self.capacity)),
        }
    }
}

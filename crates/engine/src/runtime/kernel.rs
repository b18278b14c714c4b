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

use crate::ids::{CoreId, NONE, TaskId};
use crate::queue::ready::ReadyQueue;
use crate::queue::timers::Timers;
use crate::runtime::cores::Core;
use crate::runtime::deadlock::Resource;
use crate::runtime::error::{Misuse, RunError, SpawnError};
use crate::runtime::executor::Setup;
use crate::runtime::ipi::PendingAcks;
use crate::runtime::node::{Node, Status, WaitFor};
use crate::runtime::record::{Ledger, Payment};
use crate::time::{Ticks, Time};

/// A task's future, boxed once.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// ReadyQueue entry after a misuse, before everything else: no task of this number can be polled.
const FAULTED: u32 = NONE - 1;

/// Charges of so many ticks and more are recorded like waits. (Entries have room for 2^32 - 1.)
pub(crate) const LONG: u64 = 1 << 31;

/// A task's name and whether it has finished.
pub(crate) struct TaskInfo {
    pub(crate) name: String,
    pub(crate) done: bool,
}

pub(crate) struct Kernel {
    pub(crate) ready: ReadyQueue,
    pub(crate) timers: Timers,
    /// Indexed by task.
    pub(crate) nodes: Box<[Node]>,
    /// By task, the next one in whatever list it is in.
    pub(crate) links: Box<[Cell<u32>]>,
    /// Indexed by task.
    pub(crate) statuses: Box<[Rc<Status>]>,
    pub(crate) ledger: Ledger,
    pub(crate) cores: Box<[Core]>,
    /// By core, the ticket of the task on it that waits for a cache line, or did last.
    tickets: Box<[Cell<u64>]>,
    /// Number of tickets that were drawn.
    drawn: Cell<u64>,
    pub(crate) outstanding: Box<[PendingAcks]>,
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
            ready: ReadyQueue::new(actors + 1),
            timers: Timers::new(actors + 1),
            links: (0..setup.tasks).map(|_| Cell::new(NONE)).collect(),
            nodes: (0..setup.tasks).map(|_| Node::new()).collect(),
            statuses: (0..setup.tasks)
                .map(|task| Rc::new(Status::new(task)))
                .collect(),
            ledger: Ledger::new(actors, tolls, setup.records, setup.keep),
            cores: (0..setup.cores).map(|_| Core::new()).collect(),
            tickets: (0..setup.cores).map(|_| Cell::new(0)).collect(),
            drawn: Cell::new(0),
            outstanding: (0..setup.tasks).map(|_| PendingAcks::default()).collect(),
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
    pub(crate) fn next(&self) -> Option<usize> {
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

    /// Notes that `task` now waits; `false` (and a fault) if it may not.
    #[inline]
    pub(crate) fn suspend(&self, task: u32, wait: WaitFor) -> bool {
        let status = self.status(task);
        let may = status.wait.get().is_running();
        if may {
            status.wait.set(wait);
            status.paid.set(Payment::NOTHING);
        } else {
            self.fail(task, Misuse::TwoWaits);
        }
        may
    }

    /// Lets a task go on that is about to be polled, and records the wait that has just ended.
    #[inline]
    pub(crate) fn end_wait(&self, status: &Status) {
        status.wait.set(WaitFor::RUNNING);
        let (now, mut paid) = (self.now(), status.paid.get());
        if !paid.is_known() {
            // Anything but a charge: the core may be busy with interrupts.
            if status.stalled_until.get() > now {
                status.wait.set(WaitFor::STALLED);
            }
            if paid.is_nothing() {
                return;
            }
            let ticks = now - status.since.get();
            if ticks.0 >= LONG {
                return self.ledger.record_span(now, ticks, paid.account());
            }
            paid = paid.close(ticks.0);
        }
        self.ledger.record(now, paid);
    }

    /// Stops the run after the current poll, with the first misuse as its error.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&self, task: u32, misuse: Misuse) {
        self.fault
            .borrow_mut()
            .get_or_insert((task, self.now(), misuse));
        self.ready.replace_first(FAULTED);
    }

    /// True if there has been a misuse.
    pub(crate) fn is_misused(&self) -> bool {
        self.fault.borrow().is_some()
    }

    /// The first misuse, if there has been one.
    pub(crate) fn misuse(&self) -> Option<RunError> {
        let (task, at, misuse) = self.fault.borrow().clone()?;
        let task = self.name(task);
        Some(RunError::Misuse { task, at, misuse })
    }

    /// The first misuse; this one if there has been none.
    #[cold]
    pub(crate) fn refuse(&self, task: u32, misuse: Misuse) -> RunError {
        self.fail(task, misuse.clone());
        self.misuse().unwrap_or_else(|| RunError::Misuse {
            task: self.name(task),
            at: self.now(),
            misuse,
        })
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

    /// Waits until `due`, unless nothing else can happen meanwhile, and records what is paid then:
    /// `true` if it is over already.
    #[inline(never)]
    pub(crate) fn charge_until(
        &self,
        task: u32,
        status: &Status,
        due: Time,
        paid: Payment,
    ) -> bool {
        if self.ready.is_empty() && self.timers.are_after(due) {
            self.timers.now.set(due);
            status.paid.set(paid);
            self.end_wait(status);
            return true;
        }
        status.compute(due, paid);
        self.timers.start(task, due);
        false
    }

    /// [`Cx::start_charge`](crate::Cx) of no ticks, of many, on a core that interrupts keep busy, or of a task
    /// that may not; `paid` is open, or nothing.
    #[inline(never)]
    pub(crate) fn start_rare_charge(
        &self,
        task: u32,
        status: &Status,
        ticks: Ticks,
        paid: Payment,
    ) -> bool {
        if !status.wait.get().is_running() {
            self.fail(task, Misuse::TwoWaits);
            return false;
        }
        let start = self.now().max(status.stalled_until.get());
        let Some(due) = start.checked_add(ticks) else {
            self.fail(task, Misuse::TimeOverflow);
            return false;
        };
        status.since.set(start);
        if due == self.now() {
            status.paid.set(paid);
            self.end_wait(status);
            return true;
        }
        self.charge_until(task, status, due, paid)
    }

    /// True if `task` may give up its core; a fault if not.
    pub(crate) fn may_sleep(&self, task: u32) -> bool {
        let atomic = self.status(task).atomic.get() != 0;
        if atomic {
            self.fail(task, Misuse::SleepsInAtomic);
        }
        !atomic
    }

    /// A ticket for the task on a core: greater than all before.
    pub(crate) fn draw_ticket(&self, core: CoreId) -> u64 {
        let ticket = self.drawn.get();
        self.drawn.set(ticket + 1);
        self.tickets[core.index()].set(ticket);
        ticket
    }

    /// The last ticket of a core.
    pub(crate) fn ticket(&self, core: CoreId) -> u64 {
        self.tickets[core.index()].get()
    }

    /// The least ticket of some cores, given as words of a [`CoreSet`](crate::core_set::CoreSet).
    pub(crate) fn least_ticket(&self, words: impl Iterator<Item = u64>) -> Option<u64> {
        let mut least = None;
        for (mut word, tickets) in words.zip(self.tickets.chunks(64)) {
            while word != 0 {
                let ticket = tickets[word.trailing_zeros() as usize].get();
                least = Some(least.map_or(ticket, |least: u64| least.min(ticket)));
                word &= word - 1;
            }
        }
        least
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
        self.status(task).wait.set(WaitFor::NOTHING);
        self.leave_core(task);
        self.alive.set(self.alive.get() - 1);
        if self.alive.get() == 0 {
            self.clear_limit();
        }
    }

    /// Name of a task or of a core's interrupts.
    pub(crate) fn name(&self, actor: u32) -> String {
        match self.tasks.borrow().get(actor as usize) {
            Some(info) => info.name.clone(),
            None => format!("core {}", actor.saturating_sub(self.capacity)),
        }
    }
}

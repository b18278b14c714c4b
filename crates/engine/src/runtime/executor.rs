//! The engine: polls tasks in the order of their events, until all are done or nothing can happen.

use std::rc::Rc;
use std::task::{Context, Waker};

use crate::ids::{CoreId, NONE, TaskId, Toll};
use crate::runtime::context::Cx;
use crate::runtime::deadlock::Deadlock;
use crate::runtime::error::{Misuse, RunError, SetupError, SpawnError};
use crate::runtime::kernel::{Kernel, TaskFuture};
use crate::runtime::node::Status;
use crate::runtime::record::{Account, Ledger, Record, Statistics, Total};
use crate::time::Time;

/// Parameters of an engine. Memory is set aside here, none per event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Tasks that can be spawned over the whole run.
    pub tasks: u32,
    /// Cores that tasks can be put on.
    pub cores: u32,
    /// Records kept, at least one; 16 bytes each.
    pub records: usize,
    /// Statistics to keep besides the records.
    pub keep: Statistics,
    /// Seed of [`Cx::random_below`].
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tasks: 256,
            cores: 256,
            records: 1 << 16,
            keep: Statistics::default(),
            seed: 0,
        }
    }
}

/// The names under which time is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolls(Vec<String>);

impl Tolls {
    /// A registry without tasks or tolls.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a name. The same name twice makes two tolls.
    pub fn register(&mut self, name: &str) -> Toll {
        self.0.push(name.to_owned());
        // One too many is refused when the engine is built.
        Toll(u16::try_from(self.0.len() - 1).unwrap_or(u16::MAX))
    }

    /// All tolls and their names, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = (Toll, &str)> {
        self.0
            .iter()
            .zip(0..)
            .map(|(name, number)| (Toll(number), name.as_str()))
    }
}

/// A clonable reference to an engine's state, to make primitives with.
#[derive(Clone)]
pub struct Handle(pub(crate) Rc<Kernel>);

impl Handle {
    pub(crate) fn spawn<F, T>(
        &self,
        name: &str,
        core: CoreId,
        body: F,
    ) -> Result<TaskId, SpawnError>
    where
        F: FnOnce(Cx) -> T,
        T: Future<Output = ()> + 'static,
    {
        let task = self.0.spawn(name.to_owned(), core)?;
        let future = body(Cx::new(self.clone(), task));
        self.0.spawned.borrow_mut().push((task, Box::pin(future)));
        Ok(task)
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All tasks have finished, the last one now.
    Finished(Time),
    /// The limit is reached and there is more to do.
    Paused(Time),
}

/// A virtual-time engine: tasks, the clock, and the book of what they paid.
pub struct Engine {
    handle: Handle,
    tolls: Tolls,
    /// By task, those that have been started.
    runs: Vec<Run>,
}

/// A task that has been started. Its size is a power of two: it is found by a shift.
#[repr(align(32))]
struct Run {
    /// Once it is over, one that never is.
    future: TaskFuture,
    status: Rc<Status>,
}

/// End of a stretch in which tasks that have been started are polled.
enum Interruption {
    /// The event is that of a core, of a task that runs for the first time, or the limit of the run.
    NotStarted(u32),
    /// The task has finished, or waits for nothing.
    Unsuspended { task: u32, is_done: bool },
    /// There is no event.
    NothingDue,
}

impl Interruption {
    #[cold]
    #[inline(never)]
    fn unsuspended(status: &Status, is_done: bool) -> Self {
        Self::Unsuspended {
            task: status.task,
            is_done,
        }
    }

    #[cold]
    #[inline(never)]
    fn not_started(id: usize) -> Self {
        Self::NotStarted(u32::try_from(id).unwrap_or(NONE))
    }
}

impl Engine {
    /// An engine at time zero, without tasks.
    ///
    /// # Errors
    ///
    /// If there are more pairs of a payer and a toll than a record can name.
    pub fn new(setup: &Setup, tolls: Tolls) -> Result<Self, SetupError> {
        let &Setup { tasks, cores, .. } = setup;
        let bits = Ledger::toll_bits(tolls.0.len());
        let actors = u64::from(tasks) + u64::from(cores);
        if tolls.0.len() > usize::from(u16::MAX) || (actors + 1) << bits >= Account::LIMIT {
            return Err(SetupError::TooManyAccounts {
                tasks,
                cores,
                tolls: tolls.0.len(),
            });
        }
        let kernel = Kernel::new(setup, tolls.0.len());
        Ok(Self {
            handle: Handle(Rc::new(kernel)),
            tolls,
            runs: Vec::new(),
        })
    }

    /// The reference that primitives are made with.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Adds a task, which starts on `core` once the engine runs.
    ///
    /// # Errors
    ///
    /// If the engine has no room for another task, or no such core.
    pub fn spawn<F, T>(&mut self, name: &str, core: CoreId, body: F) -> Result<TaskId, SpawnError>
    where
        F: FnOnce(Cx) -> T,
        T: Future<Output = ()> + 'static,
    {
        self.handle.spawn(name, core, body)
    }

    /// Runs until all tasks have finished, and returns when that was.
    ///
    /// # Errors
    ///
    /// A deadlock, or a task's misuse of the engine.
    pub fn run(&mut self) -> Result<Time, RunError> {
        match self.run_until(Time::MAX)? {
            Progress::Finished(at) | Progress::Paused(at) => Ok(at),
        }
    }

    /// Runs until all tasks have finished or the next event is later than `limit`, which must not
    /// be over; the clock then stands at `limit`.
    ///
    /// # Errors
    ///
    /// A deadlock, or a task's misuse of the engine.
    pub fn run_until(&mut self, limit: Time) -> Result<Progress, RunError> {
        self.refuse_after_misuse()?;
        let handle = self.handle.clone();
        let kernel = &*handle.0;
        kernel.set_limit(limit);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.run_started(kernel, &mut context) {
                Interruption::Unsuspended { task, is_done } => {
                    self.runs[task as usize].end(kernel, task, is_done)?;
                }
                Interruption::NotStarted(task) if task != kernel.limit_id() => {
                    self.step_rarely(kernel, task, &mut context)?;
                }
                Interruption::NotStarted(limit) if !kernel.ready.is_empty() => {
                    kernel.resume(limit);
                }
                Interruption::NotStarted(_) => return self.pause(),
                Interruption::NothingDue => return self.stop(),
            }
        }
    }

    /// Polls tasks that have been started, until something else is to be done.
    #[inline(never)]
    fn run_started(&mut self, kernel: &Kernel, context: &mut Context<'_>) -> Interruption {
        let runs = &mut self.runs[..];
        while let Some(task) = kernel.next() {
            let Some(run) = runs.get_mut(task) else {
                return Interruption::not_started(task);
            };
            let (status, is_done) = run.poll(kernel, context);
            if is_done || status.wait.get().is_running() {
                return Interruption::unsuspended(status, is_done);
            }
        }
        Interruption::NothingDue
    }

    /// A core's interrupt, or a task that runs for the first time.
    #[cold]
    #[inline(never)]
    fn step_rarely(
        &mut self,
        kernel: &Kernel,
        task: u32,
        context: &mut Context<'_>,
    ) -> Result<(), RunError> {
        self.refuse_after_misuse()?;
        if task >= kernel.capacity {
            kernel.interrupt(task - kernel.capacity);
            return self.refuse_after_misuse();
        }
        for (task, future) in kernel.spawned.take() {
            // A task can be entered before one of a lower number.
            let missing = kernel.statuses.get(self.runs.len()..=task.index());
            self.runs
                .extend(missing.unwrap_or_default().iter().map(|status| Run {
                    future: Box::pin(std::future::pending()),
                    status: Rc::clone(status),
                }));
            self.runs[task.index()].future = future;
        }
        let run = &mut self.runs[task as usize];
        let (status, is_done) = run.poll(kernel, context);
        if is_done || status.wait.get().is_running() {
            return run.end(kernel, task, is_done);
        }
        Ok(())
    }

    /// Result of a run that has come to its limit.
    fn pause(&self) -> Result<Progress, RunError> {
        if self.handle.0.timers.is_empty() {
            self.stop()
        } else {
            Ok(Progress::Paused(self.now()))
        }
    }

    /// Result of a run in which nothing can happen any more.
    fn stop(&self) -> Result<Progress, RunError> {
        match Deadlock::new(&self.handle.0) {
            Some(deadlock) => Err(RunError::Deadlock(Box::new(deadlock))),
            None => Ok(Progress::Finished(self.handle.0.now())),
        }
    }

    fn refuse_after_misuse(&self) -> Result<(), RunError> {
        match self.handle.0.is_misused() {
            false => Ok(()),
            true => self.handle.0.misuse().map_or(Ok(()), Err),
        }
    }
}

impl Run {
    /// Polls the task; returns its status, and whether it is done. Else it must have suspended in one
    /// place of this engine.
    #[inline(always)]
    fn poll(&mut self, kernel: &Kernel, context: &mut Context<'_>) -> (&Status, bool) {
        // Both looked up here, so that nothing has to be afterwards.
        let (future, status) = (self.future.as_mut(), &*self.status);
        kernel.end_wait(status);
        (status, future.poll(context).is_ready())
    }

    /// Drops a task that has finished, with all its guards, or refuses one that waits for nothing.
    #[cold]
    fn end(&mut self, kernel: &Kernel, task: u32, is_done: bool) -> Result<(), RunError> {
        if !is_done {
            return Err(kernel.refuse(task, Misuse::ForeignFuture));
        }
        self.future = Box::pin(std::future::pending());
        if !self.status.wait.get().is_running() {
            return Err(kernel.refuse(task, Misuse::TwoWaits));
        }
        kernel.finish(task);
        Ok(())
    }
}

/// Tasks hold the kernel, and what is under way in the kernel may hold tasks: let go of both.
impl Drop for Engine {
    fn drop(&mut self) {
        self.runs.clear();
        self.handle.0.spawned.take();
        for core in &self.handle.0.cores {
            core.inbox.take();
        }
    }
}

/// Results of a run that is over, or pauses.
impl Engine {
    /// Virtual time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.handle.0.now()
    }

    /// The newest records, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record> + '_ {
        self.handle.0.ledger.records()
    }

    /// Number of records that the ring has lost to newer ones.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        self.handle.0.ledger.overwritten()
    }

    /// A digest of every record ever made, in order: equal for equal runs.
    /// `None` unless the engine [keeps](Setup::keep) it.
    #[must_use]
    pub fn trace_hash(&self) -> Option<u64> {
        self.handle.0.ledger.trace_hash()
    }

    /// Exact total that `task` has paid for `toll`.
    #[must_use]
    pub fn total(&self, task: TaskId, toll: Toll) -> Total {
        self.handle.0.ledger.total(task, toll)
    }

    /// Totals by payer and toll; pairs without a charge are left out.
    pub fn totals(&self) -> impl Iterator<Item = (TaskId, Toll, Total)> + '_ {
        let pairs = self
            .payers()
            .flat_map(|task| self.tolls.iter().map(move |(toll, _)| (task, toll)));
        pairs
            .map(|(task, toll)| (task, toll, self.total(task, toll)))
            .filter(|paid| paid.2.count > 0)
    }

    /// The tolls and their names.
    #[must_use]
    pub fn tolls(&self) -> &Tolls {
        &self.tolls
    }

    /// Payers: every task so far, then every core for the interrupts that it handles.
    pub fn payers(&self) -> impl Iterator<Item = TaskId> + use<> {
        let kernel = &self.handle.0;
        let tasks = (0..kernel.capacity).take(kernel.tasks.borrow().len());
        let cores = (kernel.capacity..).take(kernel.cores.len());
        tasks.chain(cores).map(TaskId)
    }

    /// The name of a task, or `core 3` for a core's interrupts.
    #[must_use]
    pub fn name(&self, payer: TaskId) -> String {
        self.handle.0.name(payer.0)
    }

    /// Payer of the interrupts that `core` handles.
    #[must_use]
    pub fn interrupts_of(&self, core: CoreId) -> TaskId {
        TaskId(self.handle.0.capacity + core.0)
    }
}

//! Errors: an impossible setup, a task too many, a deadlock, a misuse.

use crate::ids::CoreId;
use crate::runtime::deadlock::Deadlock;
use crate::time::Time;

/// The engine cannot be built like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A record has no room for so many pairs of a payer and a toll.
    #[error("{tasks} tasks and {cores} cores with {tolls} tolls are too many to number")]
    TooManyAccounts {
        /// [`Setup::tasks`](crate::Setup).
        tasks: u32,
        /// [`Setup::cores`](crate::Setup).
        cores: u32,
        /// Tolls that were registered before the run.
        tolls: usize,
    },
}

/// The task cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// All tasks that [`Setup::tasks`](crate::Setup::tasks) allows have been spawned.
    #[error("no room for another task: the engine was set up for {0}")]
    Full(u32),
    /// The core is not there.
    #[error("no core {}: the engine has {cores}", core.0)]
    NoSuchCore {
        /// The core asked for.
        core: CoreId,
        /// Number of cores.
        cores: u32,
    },
}

/// The run has stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Tasks wait and nothing is pending. The tasks stay where they are.
    #[error(transparent)]
    Deadlock(Box<Deadlock>),
    /// A task has done what the engine cannot give a meaning to. The model is wrong; the engine
    /// does not run any further.
    #[error("task `{task}` at {at}: {misuse}")]
    Misuse {
        /// The name that was passed to `spawn`.
        task: String,
        /// Virtual time of the misuse.
        at: Time,
        /// The rule that the task broke.
        misuse: Misuse,
    },
}

/// Misuse of the engine by a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Two of a task's futures wait at once, one was dropped while it waited, or one task used the
    /// [`Cx`](crate::Cx) of another.
    #[error("waits in two places, has dropped a wait, or uses the context of another task")]
    TwoWaits,
    /// The task waits for a future that is not of this engine, so nothing would ever wake it.
    #[error("awaits a future that is not of this engine")]
    ForeignFuture,
    /// The primitive belongs to another engine.
    #[error("uses {0} of another engine")]
    ForeignPrimitive(String),
    /// The task would give up its core while it holds a spinlock or masks interrupts.
    #[error("sleeps while it holds a spinlock or masks interrupts")]
    SleepsInAtomic,
    /// A charge, a sleep or a hand-off would end after [`Time::MAX`].
    #[error("goes beyond the end of time")]
    TimeOverflow,
    /// An interrupt is sent to a core that is not there.
    #[error("sends an interrupt to core {}, which is not there", .0.0)]
    NoSuchCore(CoreId),
}

//! What the engine keeps per task: a [`Status`] that the task itself reads and writes at every
//! charge, and a [`Node`] that links it into at most one list.

use std::cell::Cell;

use crate::ids::NONE;
use crate::record::Account;
use crate::time::Time;

/// What a suspended task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitFor(u32);

impl WaitFor {
    /// Not started, or running.
    pub(crate) const NOTHING: Self = Self(0);
    /// The end of a charge: the task computes on its core.
    pub(crate) const CHARGE: Self = Self(1);
    /// The end of a sleep, off the core.
    pub(crate) const SLEEP: Self = Self(2);
    /// Its core, occupied by another task.
    pub(crate) const CORE: Self = Self(3);
    const RESOURCES: u32 = 4;

    /// Waiting for the resource with this number.
    pub(crate) const fn resource(number: u32) -> Self {
        Self(number + Self::RESOURCES)
    }

    /// The number of the resource waited for, if it is one.
    pub(crate) const fn as_resource(self) -> Option<u32> {
        self.0.checked_sub(Self::RESOURCES)
    }
}

/// The part of a task's state that its own context points to.
pub(crate) struct Status {
    /// Interrupts keep the core busy until then; the next charge starts no earlier.
    pub(crate) stalled_until: Cell<Time>,
    pub(crate) wait: Cell<WaitFor>,
    /// Spinlocks held and interrupt masks in force: the task must not sleep.
    pub(crate) atomic: Cell<u32>,
    /// Where the present wait is recorded when it is over, or nowhere.
    pub(crate) account: Cell<Account>,
    /// Since when it is, if it is.
    pub(crate) since: Cell<Time>,
}

impl Status {
    pub(crate) const fn new() -> Self {
        Self {
            stalled_until: Cell::new(Time::ZERO),
            wait: Cell::new(WaitFor::NOTHING),
            atomic: Cell::new(0),
            account: Cell::new(Account::NOWHERE),
            since: Cell::new(Time::ZERO),
        }
    }

    /// Notes that the task computes from `start` on, and where to record it.
    #[inline]
    pub(crate) fn compute(&self, start: Time, account: Account) {
        self.wait.set(WaitFor::CHARGE);
        self.account.set(account);
        self.since.set(start);
    }

    /// Forbids the task to sleep until it leaves again.
    #[inline]
    pub(crate) fn enter_atomic(&self) {
        self.atomic.set(self.atomic.get() + 1);
    }

    /// Takes back one [`Status::enter_atomic`].
    #[inline]
    pub(crate) fn leave_atomic(&self) {
        self.atomic.set(self.atomic.get() - 1);
    }
}

/// The part of a task's state that others reach by its number.
pub(crate) struct Node {
    pub(crate) next: Cell<u32>,
    pub(crate) core: Cell<u32>,
    /// A word for the primitive that the task waits in.
    pub(crate) note: Cell<u32>,
}

impl Node {
    pub(crate) const fn new() -> Self {
        Self {
            next: Cell::new(NONE),
            core: Cell::new(0),
            note: Cell::new(0),
        }
    }
}

//! State of a task: a [`Status`] that the task itself reads and writes at every charge, and a [`Node`] that others
//! reach by its number.

use std::cell::Cell;

use crate::runtime::record::Payment;
use crate::time::Time;

/// Resource that a suspended task waits for; also the states of tasks that are not suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitFor(u32);

impl WaitFor {
    /// The task is being polled.
    pub(crate) const RUNNING: Self = Self(0);
    /// Running, on a core that interrupts keep busy: the next charge starts later.
    pub(crate) const STALLED: Self = Self(1);
    /// The end of a charge: the task computes on its core.
    pub(crate) const CHARGE: Self = Self(2);
    /// The end of a sleep, off the core.
    pub(crate) const SLEEP: Self = Self(3);
    /// The task's core, occupied by another task.
    pub(crate) const CORE: Self = Self(4);
    /// Not started, or finished.
    pub(crate) const NOTHING: Self = Self(5);
    const RESOURCES: u32 = 6;

    /// True if the task is being polled and has not suspended.
    #[inline]
    pub(crate) const fn is_running(self) -> bool {
        self.0 <= Self::STALLED.0
    }

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
    /// The number of the task.
    pub(crate) task: u32,
    /// Interrupts keep the core busy until then; the next charge starts no earlier.
    pub(crate) stalled_until: Cell<Time>,
    pub(crate) wait: Cell<WaitFor>,
    /// Spinlocks held and interrupt masks in force: the task must not sleep.
    pub(crate) atomic: Cell<u32>,
    /// Charge to record when the present wait is over.
    pub(crate) paid: Cell<Payment>,
    /// End of the present charge, if the task is in one.
    pub(crate) due: Cell<Time>,
    /// Start of the present wait, if its charge is [open](Payment::open).
    pub(crate) since: Cell<Time>,
}

impl Status {
    pub(crate) const fn new(task: u32) -> Self {
        Self {
            task,
            stalled_until: Cell::new(Time::ZERO),
            wait: Cell::new(WaitFor::NOTHING),
            atomic: Cell::new(0),
            paid: Cell::new(Payment::NOTHING),
            due: Cell::new(Time::ZERO),
            since: Cell::new(Time::ZERO),
        }
    }

    /// Notes that the task computes until `due`, and what it pays then.
    #[inline]
    pub(crate) fn compute(&self, due: Time, paid: Payment) {
        self.wait.set(WaitFor::CHARGE);
        self.paid.set(paid);
        self.due.set(due);
    }

    /// Lets the charge that ends now, and is not recorded yet, be recorded like other waits: when they
    /// end it is seen that interrupts keep the core busy.
    pub(crate) fn reopen(&self, now: Time) {
        let paid = self.paid.get();
        if paid.is_known() {
            self.paid.set(Payment::open(paid.account()));
            self.since.set(Time(now.0 - paid.ticks().0));
        }
    }

    /// Notes that interrupts keep the task's core busy until then.
    pub(crate) fn stall(&self, until: Time, now: Time) {
        self.stalled_until.set(until);
        if until > now && self.wait.get() == WaitFor::RUNNING {
            self.wait.set(WaitFor::STALLED);
        }
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
    pub(crate) core: Cell<u32>,
}

impl Node {
    pub(crate) const fn new() -> Self {
        Self { core: Cell::new(0) }
    }
}

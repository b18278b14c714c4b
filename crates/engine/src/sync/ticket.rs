//! A ticket lock: first in, first out like the [`SpinLock`], but all waiters spin on one line.
//!
//! A release takes the line from every waiter, and each fetches it again; the next holder is served
//! somewhere among them, on average after half of the others. So a hand-off grows with the number of
//! waiters (Boyd-Wickizer, Kaashoek, Morris and Zeldovich, "Non-scalable locks are dangerous", 2012).
//! The mean is charged, not a draw.

use crate::distance::Distance;
use crate::ids::Toll;
use crate::runtime::context::Cx;
use crate::runtime::executor::Handle;
use crate::sync::spinlock::{Acquire, SpinLock};
use crate::time::Ticks;

/// Costs of a hand-off of a ticket lock.
#[derive(Clone, Debug, Default)]
pub struct TicketCosts {
    /// From the core of the last holder to that of the next.
    pub hand_off: Distance,
    /// On top, for every second task that goes on waiting.
    pub refetch: Ticks,
}

/// A ticket spinlock; clones are the same lock.
#[derive(Clone)]
pub struct TicketLock(SpinLock);

impl TicketLock {
    /// A free lock. An acquisition that had to spin is recorded under `toll` with the time spun.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, costs: TicketCosts) -> Self {
        Self(SpinLock::with_title(
            handle,
            format!("ticket lock `{name}`"),
            toll,
            costs,
        ))
    }

    /// Spins until the lock is this task's.
    #[inline]
    pub fn acquire<'a>(&'a self, cx: &'a Cx) -> Acquire<'a> {
        self.0.acquire(cx)
    }

    /// Number of tasks that spin.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters()
    }
}

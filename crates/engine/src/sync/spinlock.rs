//! A queued spinlock: waiters spin on their cores and get the lock first in, first out.
//!
//! Each waiter spins on a line of its own, so a hand-off costs one distance however many wait
//! (Mellor-Crummey and Scott, 1991). Taking a free lock costs nothing; charge what it should cost.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use crate::distance::Distance;
use crate::ids::{NONE, Toll};
use crate::queue::wait_list::WaitList;
use crate::runtime::context::Cx;
use crate::runtime::deadlock::Resource;
use crate::runtime::error::Misuse;
use crate::runtime::executor::Handle;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::{Status, WaitFor};
use crate::runtime::record::OpenToll;
use crate::sync::ticket::TicketCosts;
use crate::time::Ticks;

/// A first-in first-out spinlock; clones are the same lock.
#[derive(Clone)]
pub struct SpinLock(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    title: String,
    toll: OpenToll,
    costs: TicketCosts,
    /// True if all costs are zero.
    is_instant: bool,
    wait: WaitFor,
    holder: Cell<u32>,
    waiters: WaitList,
}

impl SpinLock {
    /// A free lock. An acquisition that had to spin is recorded under `toll` with the time spun;
    /// `hand_off` is the time from release to the next holder.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, hand_off: Distance) -> Self {
        let costs = TicketCosts {
            hand_off,
            refetch: Ticks::ZERO,
        };
        Self::with_title(handle, format!("spinlock `{name}`"), toll, costs)
    }

    /// A lock with another title in a [`Deadlock`](crate::Deadlock).
    pub(crate) fn with_title(
        handle: &Handle,
        title: String,
        toll: Toll,
        costs: TicketCosts,
    ) -> Self {
        Self(Rc::new_cyclic(|lock: &Weak<Inner>| Inner {
            wait: handle.0.register(lock.clone()),
            kernel: Rc::clone(&handle.0),
            title,
            toll: OpenToll::new(toll),
            is_instant: costs.hand_off.is_none() && costs.refetch == Ticks::ZERO,
            costs,
            holder: Cell::new(NONE),
            waiters: WaitList::new(),
        }))
    }

    /// Spins until the lock is this task's.
    #[inline]
    pub fn acquire<'a>(&'a self, cx: &'a Cx) -> Acquire<'a> {
        Acquire {
            lock: &self.0,
            cx,
            queued: false,
        }
    }

    /// Number of tasks that spin.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters.len()
    }
}

impl Inner {
    /// Takes the lock if it is free, otherwise queues the task and suspends it.
    #[inline]
    fn take(&self, cx: &Cx) -> bool {
        let task = cx.index();
        let free = self.holder.get() == NONE && Rc::ptr_eq(&self.kernel, cx.kernel());
        if free {
            self.holder.set(task);
        } else {
            self.queue(cx);
        }
        free
    }

    /// Queues the task and suspends it.
    #[inline(never)]
    fn queue(&self, cx: &Cx) {
        let kernel = cx.kernel();
        if !Rc::ptr_eq(&self.kernel, kernel) || !cx.status().wait.get().is_running() {
            return self.refuse(cx);
        }
        cx.suspend_paying(self.wait, self.toll);
        self.waiters.push_back(&kernel.links, cx.index());
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, cx: &Cx) {
        if cx.is_of(&self.kernel, || self.title()) {
            self.kernel.fail(cx.index(), Misuse::TwoWaits);
        }
    }

    #[inline]
    fn release(&self) {
        if self.waiters.is_empty() {
            self.holder.set(NONE);
        } else {
            self.hand_over();
        }
    }

    /// Makes the first waiter the holder.
    #[inline(never)]
    fn hand_over(&self) {
        let next = self.waiters.take_front(&self.kernel.links);
        if self.is_instant {
            self.holder.set(next);
            self.kernel.resume(next);
        } else {
            self.resume_later(self.holder.replace(next), next);
        }
    }

    /// Lets the next holder go on when it has the lock's line.
    #[inline(never)]
    fn resume_later(&self, holder: u32, next: u32) {
        let TicketCosts { hand_off, refetch } = &self.costs;
        let (from, to) = (self.kernel.core_of(holder), self.kernel.core_of(next));
        let refetches = u64::from(self.waiters.len() / 2);
        let delay = hand_off
            .between(from, to)
            .saturating_add(refetch.saturating_mul(refetches));
        self.kernel.resume_after(next, delay);
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn holders(&self, _: &Kernel, _: u32) -> Vec<u32> {
        vec![self.holder.get()]
    }
}

/// The future of [`SpinLock::acquire`].
#[must_use = "the lock is not taken until this is awaited"]
pub struct Acquire<'a> {
    lock: &'a Inner,
    cx: &'a Cx,
    queued: bool,
}

impl<'a> Future for Acquire<'a> {
    type Output = SpinGuard<'a>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<SpinGuard<'a>> {
        let Self { lock, cx, queued } = *self;
        if !queued && !lock.take(cx) {
            self.queued = true;
            return Poll::Pending;
        }
        let status = cx.status();
        status.enter_atomic();
        Poll::Ready(SpinGuard { lock, status })
    }
}

/// A spinlock held; dropping it hands the lock to the next waiter.
#[must_use = "the lock is released at once"]
pub struct SpinGuard<'a> {
    lock: &'a Inner,
    status: &'a Status,
}

impl Drop for SpinGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.status.leave_atomic();
        self.lock.release();
    }
}

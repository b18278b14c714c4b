//! Cores: one task at a time, the others queue first in, first out.
//!
//! A task holds its core from the moment it runs until it sleeps, yields or ends; computing and
//! spinning do not give it up. There is no preemption, but interrupts stall what runs.

use std::cell::{Cell, RefCell};

use crate::ids::NONE;
use crate::queue::wait_list::WaitList;
use crate::runtime::error::Misuse;
use crate::runtime::ipi::Inbox;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;
use crate::time::{Ticks, Time};

pub(crate) struct Core {
    /// The task that holds the core.
    current: Cell<u32>,
    queue: WaitList,
    /// Interrupt masks in force.
    pub(crate) masks: Cell<u32>,
    /// Interrupts keep the core busy until then.
    stalled_until: Cell<Time>,
    pub(crate) inbox: RefCell<Inbox>,
    /// The core whose handling of an interrupt ends right after this one's, or [`NONE`].
    pub(crate) follower: Cell<u32>,
}

impl Core {
    pub(crate) fn new() -> Self {
        Self {
            current: Cell::new(NONE),
            queue: WaitList::new(),
            masks: Cell::new(0),
            stalled_until: Cell::new(Time::ZERO),
            inbox: RefCell::default(),
            follower: Cell::new(NONE),
        }
    }

    /// The task that holds the core.
    pub(crate) fn occupant(&self) -> Option<u32> {
        Some(self.current.get()).filter(|&task| task != NONE)
    }
}

impl Kernel {
    pub(crate) fn core(&self, task: u32) -> &Core {
        &self.cores[self.node(task).core.get() as usize]
    }

    /// Gives `task` its core, or queues it there and returns `false`.
    pub(crate) fn enter_core(&self, task: u32) -> bool {
        let core = self.core(task);
        match core.current.get() {
            NONE => self.occupy(core, task),
            occupant if occupant == task => {}
            _ => {
                core.queue.push_back(&self.links, task);
                return false;
            }
        }
        true
    }

    fn occupy(&self, core: &Core, task: u32) {
        core.current.set(task);
        self.status(task)
            .stall(core.stalled_until.get(), self.now());
    }

    /// Takes the core from `task` and lets the next one on it go on.
    pub(crate) fn leave_core(&self, task: u32) {
        let core = self.core(task);
        debug_assert_eq!(core.current.get(), task, "only the occupant leaves");
        core.current.set(NONE);
        if let Some(next) = core.queue.pop_front(&self.links) {
            self.occupy(core, next);
            self.resume(next);
        }
    }

    /// Suspends `task` off its core; `false` (and a fault) if it may not.
    pub(crate) fn sleep(&self, task: u32, wait: WaitFor) -> bool {
        let sleeps = self.may_sleep(task) && self.suspend(task, wait);
        if sleeps {
            self.leave_core(task);
        }
        sleeps
    }

    /// Hands the core to the next task in the queue, if there is one, and queues `task` behind the
    /// last; whether `task` is suspended by that.
    pub(crate) fn yield_core(&self, task: u32) -> bool {
        let core = self.core(task);
        if core.queue.is_empty() || !self.sleep(task, WaitFor::CORE) {
            return false;
        }
        core.queue.push_back(&self.links, task);
        true
    }

    /// Keeps a core busy for `ticks` more: what runs there ends that much later, what starts there
    /// starts no earlier.
    pub(crate) fn stall(&self, core: &Core, ticks: Ticks) {
        let start = core.stalled_until.get().max(self.now());
        let until = start.checked_add(ticks).unwrap_or(Time::MAX);
        core.stalled_until.set(until);
        let Some(task) = core.occupant() else { return };
        self.status(task).stall(until, self.now());
        if self.status(task).wait.get() == WaitFor::CHARGE {
            self.prolong(task, ticks);
        }
    }

    /// Moves the end of a running charge.
    fn prolong(&self, task: u32, ticks: Ticks) {
        let status = self.status(task);
        let (due, since) = (status.due.get(), status.since.get());
        if due <= self.now() {
            return status.reopen(self.now());
        }
        let (Some(later), Some(since)) = (due.checked_add(ticks), since.checked_add(ticks)) else {
            return self.fail(task, Misuse::TimeOverflow);
        };
        self.timers.take_out(task, due);
        self.timers.start(task, later);
        status.due.set(later);
        // The ticks are the core's, not the task's.
        status.since.set(since);
    }
}

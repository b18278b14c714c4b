//! A contended cache line: one core owns it, every other access first moves it.
//!
//! Accesses are exclusive (read-modify-write) and spin: the core is busy from the first try to the
//! end of the transfer. Who is served next is the [`Arbitration`]'s choice. Shared copies are not
//! modelled.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use crate::context::{Cx, Parked};
use crate::deadlock::Resource;
use crate::distance::Distance;
use crate::executor::Handle;
use crate::ids::{CoreId, NONE, Toll};
use crate::kernel::Kernel;
use crate::node::WaitFor;
use crate::time::Ticks;
use crate::wait_list::WaitList;

/// Which of the waiting cores gets a line next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// The one that has waited for longest.
    Fifo,
    /// The one that the line is quickest to reach, and among equals the one that has waited for
    /// longest; but after so many grants in a row past the longest waiting, that one.
    NearFirst {
        /// Grants past the longest waiting, in a row.
        bound: u32,
    },
}

/// What an access takes, and who is served first.
#[derive(Clone, Debug)]
pub struct LineCosts {
    /// An access where the core owns the line, or nobody does.
    pub hit: Ticks,
    /// An access elsewhere: the transfer from the owner's core.
    pub transfer: Distance,
    /// Who is served first.
    pub arbitration: Arbitration,
}

/// A cache line; clones are the same line.
#[derive(Clone)]
pub struct CacheLine(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    name: String,
    toll: Toll,
    costs: LineCosts,
    wait: WaitFor,
    /// The core that used the line last.
    owner: Cell<Option<CoreId>>,
    /// The task that the line is moving to, or at.
    user: Cell<u32>,
    waiters: WaitList,
    /// Grants in a row past the task that has waited for longest.
    passed: Cell<u32>,
}

impl CacheLine {
    /// A line that no core owns. Each access is recorded under `toll`, with the time from its try to
    /// its end.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, costs: LineCosts) -> Self {
        Self(Rc::new_cyclic(|line: &Weak<Inner>| Inner {
            wait: handle.0.register(line.clone()),
            kernel: Rc::clone(&handle.0),
            name: name.to_owned(),
            toll,
            costs,
            owner: Cell::new(None),
            user: Cell::new(NONE),
            waiters: WaitList::new(),
            passed: Cell::new(0),
        }))
    }

    /// Reads, modifies and writes the line once.
    pub async fn access(&self, cx: &Cx) {
        let line = &*self.0;
        let since = cx.now();
        if !line.begin(cx) {
            Parked::new().await;
        }
        line.end(cx.core());
        cx.record(line.toll, cx.now().since(since));
    }

    /// The core that the line is at, if it has been used.
    #[must_use]
    pub fn owner(&self) -> Option<CoreId> {
        self.0.owner.get()
    }

    /// How many tasks wait for the line.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters.len()
    }
}

impl Inner {
    /// Starts an access, or queues it; `true` if it is over already.
    fn begin(&self, cx: &Cx) -> bool {
        let task = cx.index();
        if !cx.is_of(&self.kernel, || self.title()) {
            return false;
        }
        if self.user.get() == NONE {
            self.user.set(task);
            return cx.start_unrecorded(self.cost_for(task));
        }
        if self.kernel.suspend(task, self.wait) {
            self.waiters.push_back(&self.kernel.links, task);
        }
        false
    }

    /// Ends the access of `core`, and starts the next one.
    fn end(&self, core: CoreId) {
        self.owner.set(Some(core));
        let next = self.choose().unwrap_or(NONE);
        self.user.set(next);
        if next != NONE {
            self.waiters.remove(&self.kernel.links, next);
            self.kernel.resume_after(next, self.cost_for(next));
        }
    }

    fn cost_for(&self, task: u32) -> Ticks {
        let core = self.kernel.core_of(task);
        match self.owner.get() {
            Some(owner) if owner != core => self.costs.transfer.between(owner, core),
            _ => self.costs.hit,
        }
    }

    /// The waiter to serve next.
    fn choose(&self) -> Option<u32> {
        let oldest = self.waiters.front()?;
        let chosen = match self.costs.arbitration {
            Arbitration::NearFirst { bound } if self.passed.get() < bound => self.nearest()?,
            _ => oldest,
        };
        self.passed.set(if chosen == oldest {
            0
        } else {
            self.passed.get() + 1
        });
        Some(chosen)
    }

    fn nearest(&self) -> Option<u32> {
        self.waiters
            .iter(&self.kernel.links)
            .min_by_key(|&task| self.cost_for(task))
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        format!("cache line `{}`", self.name)
    }

    fn holders(&self, _: &Kernel, _: u32) -> Vec<u32> {
        vec![self.user.get()]
    }
}

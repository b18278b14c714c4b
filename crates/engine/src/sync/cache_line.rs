//! A contended cache line: one core owns it, every other access first moves it.
//!
//! Accesses spin: the core is busy from the first try to the end of the transfer. An exclusive one
//! (read-modify-write) takes the line away from all others; a read takes a copy and leaves the line
//! where it is, and all reads that wait are served together. Who is served next is the
//! [`Arbitration`]'s choice.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::distance::Distance;
use crate::ids::{CoreId, NONE, Toll};
use crate::queue::wait_list::WaitList;
use crate::runtime::context::{Cx, ParkFuture};
use crate::runtime::deadlock::Resource;
use crate::runtime::executor::Handle;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;
use crate::time::Ticks;

/// Order in which waiting cores get a line.
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

/// Costs of accesses, and the order of waiters.
#[derive(Clone, Debug)]
pub struct LineCosts {
    /// An access where the core owns the line, or none does; a read where it has a copy.
    pub hit: Ticks,
    /// An access elsewhere: the transfer from the owner's core. An owner pays it too when others have
    /// copies, which it has to take back.
    pub transfer: Distance,
    /// Order of waiters.
    pub arbitration: Arbitration,
}

/// [`Node::note`](crate::runtime::node::Node::note) of a task that waits for the line itself, and for a copy.
const EXCLUSIVE: u32 = 0;
const COPY: u32 = 1;

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
    /// The cores beside the owner's that have a copy.
    copies: RefCell<Vec<CoreId>>,
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
            copies: RefCell::default(),
            user: Cell::new(NONE),
            waiters: WaitList::new(),
            passed: Cell::new(0),
        }))
    }

    /// Reads, modifies and writes the line once.
    pub async fn access(&self, cx: &Cx) {
        let line = &*self.0;
        let since = cx.now();
        if !line.begin(cx, EXCLUSIVE) {
            ParkFuture::new().await;
        }
        line.owner.set(Some(cx.core()));
        line.copies.borrow_mut().clear();
        line.end(cx.index());
        cx.record(line.toll, cx.now().since(since));
    }

    /// Reads the line once.
    pub async fn read(&self, cx: &Cx) {
        let line = &*self.0;
        let since = cx.now();
        if !line.begin(cx, COPY) {
            ParkFuture::new().await;
        }
        line.end(cx.index());
        cx.record(line.toll, cx.now().since(since));
    }

    /// The core that the line is at, if it has been used.
    #[must_use]
    pub fn owner(&self) -> Option<CoreId> {
        self.0.owner.get()
    }

    /// Number of tasks that wait for the line.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters.len()
    }
}

impl Inner {
    /// Starts an access, or queues it; `true` if it is over already.
    fn begin(&self, cx: &Cx, mode: u32) -> bool {
        let task = cx.index();
        if !cx.is_of(&self.kernel, || self.title()) {
            return false;
        }
        if self.user.get() == NONE {
            self.user.set(task);
            return cx.start_unrecorded(self.grant(task, mode));
        }
        if self.kernel.suspend(task, self.wait) {
            self.kernel.node(task).note.set(mode);
            self.waiters.push_back(&self.kernel.links, task);
        }
        false
    }

    /// Ends the access of `task`, and starts the next one. A read that was served along with another
    /// ends nothing.
    fn end(&self, task: u32) {
        if self.user.get() != task {
            return;
        }
        let next = self.choose().unwrap_or(NONE);
        self.user.set(next);
        if next == NONE {
            return;
        }
        let mode = self.kernel.node(next).note.get();
        self.serve(next, mode);
        if mode == COPY {
            self.serve_reads();
        }
    }

    /// Lets a waiter go on when the line or its copy has come.
    fn serve(&self, task: u32, mode: u32) {
        self.waiters.remove(&self.kernel.links, task);
        let delay = self.grant(task, mode);
        self.kernel.resume_after(task, delay);
    }

    /// Serves all reads that wait.
    fn serve_reads(&self) {
        let waiters = self.waiters.iter(&self.kernel.links);
        let reads: Vec<u32> = waiters
            .filter(|&task| self.kernel.node(task).note.get() == COPY)
            .collect();
        for task in reads {
            self.serve(task, COPY);
        }
    }

    /// Ticks that `task` has to wait for the line or a copy; a reader has a copy from now on.
    fn grant(&self, task: u32, mode: u32) -> Ticks {
        let cost = self.cost_for(task, mode);
        let core = self.kernel.core_of(task);
        if mode == COPY && !self.has_copy(core) {
            self.copies.borrow_mut().push(core);
        }
        cost
    }

    fn has_copy(&self, core: CoreId) -> bool {
        self.owner.get() == Some(core) || self.copies.borrow().contains(&core)
    }

    fn cost_for(&self, task: u32, mode: u32) -> Ticks {
        let core = self.kernel.core_of(task);
        let from = match self.owner.get() {
            _ if mode == COPY && self.has_copy(core) => None,
            Some(owner) if owner != core => Some(owner),
            Some(_) if mode == EXCLUSIVE => self.copies.borrow().last().copied(),
            _ => None,
        };
        let from = from.filter(|from| *from != core);
        from.map_or(self.costs.hit, |from| {
            self.costs.transfer.between(from, core)
        })
    }

    /// The waiter to serve next.
    fn choose(&self) -> Option<u32> {
        let oldest = self.waiters.front()?;
        let chosen = match self.costs.arbitration {
            Arbitration::NearFirst { bound } if self.passed.get() < bound => self
                .waiters
                .iter(&self.kernel.links)
                .min_by_key(|&task| self.cost_for(task, self.kernel.node(task).note.get()))?,
            _ => oldest,
        };
        self.passed.set(if chosen == oldest {
            0
        } else {
            self.passed.get() + 1
        });
        Some(chosen)
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

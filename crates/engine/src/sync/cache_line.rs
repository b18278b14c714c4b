//! A contended cache line: one core owns it, every other access first moves it.
//!
//! Accesses spin: the core is busy from the first try to the end of the transfer. An exclusive one
//! (read-modify-write) takes the line away from all others; a read takes a copy and leaves the line
//! where it is, and all reads that wait are served together. Who is served next is the
//! [`Arbitration`]'s choice.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::core_set::CoreSet;
use crate::distance::Distance;
use crate::ids::{CoreId, NONE, Toll};
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
    copies: Copies,
    /// The task that the line is moving to, or at.
    user: Cell<u32>,
    waiters: Waiters,
    /// Grants in a row past the task that has waited for longest.
    passed: Cell<u32>,
}

/// Waiters from which on they are not compared one by one.
const MANY: usize = 8;

/// Use of the line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Takes it away from all others.
    Exclusive,
    /// Takes a copy.
    Read,
}

/// A task that waits for the line.
#[derive(Clone, Copy)]
struct Waiter {
    task: u32,
    core: CoreId,
    access: Access,
    /// Grows from one waiter to the next.
    ticket: u64,
}

/// Tasks that wait for the line. They spin: there is one of a core at most.
struct Waiters {
    /// Longest first.
    queue: RefCell<VecDeque<Waiter>>,
    /// Their cores.
    cores: CoreSet,
    /// The cores of those that read.
    readers: CoreSet,
}

impl Waiters {
    fn new(cores: usize) -> Self {
        Self {
            queue: RefCell::default(),
            cores: CoreSet::new(cores),
            readers: CoreSet::new(cores),
        }
    }

    fn push(&self, waiter: Waiter) {
        self.cores.add(waiter.core);
        if waiter.access == Access::Read {
            self.readers.add(waiter.core);
        }
        self.queue.borrow_mut().push_back(waiter);
    }

    fn remove(&self, place: usize) -> Option<Waiter> {
        let waiter = self.queue.borrow_mut().remove(place)?;
        self.forget(waiter);
        Some(waiter)
    }

    fn take_readers(&self) -> Vec<Waiter> {
        let mut readers = Vec::new();
        self.queue.borrow_mut().retain(|waiter| {
            let reads = waiter.access == Access::Read;
            readers.extend(reads.then_some(*waiter));
            !reads
        });
        readers.iter().for_each(|reader| self.forget(*reader));
        readers
    }

    fn forget(&self, waiter: Waiter) {
        self.cores.remove(waiter.core);
        self.readers.remove(waiter.core);
    }
}

/// The cores beside the owner's that have a copy.
struct Copies {
    cores: CoreSet,
    /// The core that got the last one.
    last: Cell<Option<CoreId>>,
}

impl Copies {
    fn add(&self, core: CoreId) {
        self.cores.add(core);
        self.last.set(Some(core));
    }

    fn clear(&self) {
        if self.last.take().is_some() {
            self.cores.clear();
        }
    }
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
            copies: Copies {
                cores: CoreSet::new(handle.0.cores.len()),
                last: Cell::new(None),
            },
            user: Cell::new(NONE),
            waiters: Waiters::new(handle.0.cores.len()),
            passed: Cell::new(0),
        }))
    }

    /// Reads, modifies and writes the line once.
    pub async fn access(&self, cx: &Cx) {
        let line = &*self.0;
        let since = cx.now();
        if !line.begin(cx, Access::Exclusive) {
            ParkFuture::new().await;
        }
        line.owner.set(Some(cx.core()));
        line.copies.clear();
        line.end(cx.index());
        cx.record(line.toll, cx.now().since(since));
    }

    /// Reads the line once.
    pub async fn read(&self, cx: &Cx) {
        let line = &*self.0;
        let since = cx.now();
        if !line.begin(cx, Access::Read) {
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
        u32::try_from(self.0.waiters.queue.borrow().len()).unwrap_or(u32::MAX)
    }
}

impl Inner {
    /// Starts an access, or queues it; `true` if it is over already.
    fn begin(&self, cx: &Cx, access: Access) -> bool {
        let (task, core) = (cx.index(), cx.core());
        if !cx.is_of(&self.kernel, || self.title()) {
            return false;
        }
        if self.user.get() == NONE {
            self.user.set(task);
            return cx.start_unrecorded(self.grant(core, access));
        }
        if self.kernel.suspend(task, self.wait) {
            self.waiters.push(Waiter {
                task,
                core,
                access,
                ticket: self.kernel.draw_ticket(core),
            });
        }
        false
    }

    /// Ends the access of `task`, and starts the next one. A read that was served along with another
    /// ends nothing.
    fn end(&self, task: u32) {
        if self.user.get() != task {
            return;
        }
        let next = self.choose().and_then(|place| self.waiters.remove(place));
        self.user.set(next.map_or(NONE, |next| next.task));
        let Some(next) = next else { return };
        self.serve(next);
        if next.access == Access::Read {
            let readers = self.waiters.take_readers().into_iter();
            readers.for_each(|reader| self.serve(reader));
        }
    }

    /// Lets a task that has waited go on when the line or its copy has come.
    fn serve(&self, waiter: Waiter) {
        let delay = self.grant(waiter.core, waiter.access);
        self.kernel.resume_after(waiter.task, delay);
    }

    /// Ticks that a core has to wait for the line or a copy; a reader has a copy from now on.
    fn grant(&self, core: CoreId, access: Access) -> Ticks {
        let cost = self.cost(core, access);
        if access == Access::Read && !self.has_copy(core) {
            self.copies.add(core);
        }
        cost
    }

    fn has_copy(&self, core: CoreId) -> bool {
        self.owner.get() == Some(core) || self.copies.cores.has(core)
    }

    /// Ticks that the line or its copy takes to a core.
    fn cost(&self, core: CoreId, access: Access) -> Ticks {
        let from = match self.owner.get() {
            _ if access == Access::Read && self.has_copy(core) => None,
            Some(owner) if owner != core => Some(owner),
            Some(_) if access == Access::Exclusive => self.copies.last.get(),
            _ => None,
        };
        let from = from.filter(|from| *from != core);
        from.map_or(self.costs.hit, |from| {
            self.costs.transfer.between(from, core)
        })
    }

    /// The place of the waiter to serve next.
    fn choose(&self) -> Option<usize> {
        let waiters = self.waiters.queue.borrow();
        if waiters.is_empty() {
            return None;
        }
        let place = match self.costs.arbitration {
            Arbitration::NearFirst { bound } if self.passed.get() < bound => self.nearest(&waiters),
            _ => 0,
        };
        self.passed.set(match place {
            0 => 0,
            _ => self.passed.get() + 1,
        });
        Some(place)
    }

    /// The place of the waiter that the line is quickest to reach; among equals of the one that has waited for longest.
    fn nearest(&self, waiters: &VecDeque<Waiter>) -> usize {
        let many = self.owner.get().filter(|_| waiters.len() >= MANY);
        let ticket = many.and_then(|owner| self.nearest_of_many(owner));
        if let Some(ticket) = ticket {
            return waiters.partition_point(|waiter| waiter.ticket < ticket);
        }
        let costs = waiters.iter().enumerate();
        let nearest = costs.min_by_key(|(_, waiter)| self.cost(waiter.core, waiter.access));
        nearest.map_or(0, |(place, _)| place)
    }

    /// The ticket of [`Inner::nearest`], by the rings round the owner; `None` where there are none.
    fn nearest_of_many(&self, owner: CoreId) -> Option<u64> {
        let transfer = &self.costs.transfer;
        let rings = transfer.rings(owner, self.kernel.cores.len())?;
        let Waiters { cores, readers, .. } = &self.waiters;
        // Its own core has the line, and readers may have copies: for them it does not come from the owner.
        let own = cores.has(owner).then(|| {
            let access = match readers.has(owner) {
                true => Access::Read,
                false => Access::Exclusive,
            };
            (self.cost(owner, access), self.kernel.ticket(owner))
        });
        let with_copy = readers.words().zip(self.copies.cores.words());
        let with_copy = with_copy.map(|(reads, has)| reads & has);
        let hits = self.kernel.least_ticket(with_copy.clone());
        let others = cores.words().zip(with_copy);
        let others = others.map(|(waits, has)| waits & !has);
        let from_owner = rings.iter().find_map(|ring| {
            let within = ring.cores.words().zip(others.clone());
            let ticket = self
                .kernel
                .least_ticket(within.map(|(ring, waits)| ring & waits))?;
            Some((ring.cost, ticket))
        });
        let hits = hits.map(|ticket| (self.costs.hit, ticket));
        let nearest = [own, hits, from_owner].into_iter().flatten().min();
        nearest.map(|(_, ticket)| ticket)
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

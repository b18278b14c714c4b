//! A reader-writer semaphore: many readers or one writer; waiters sleep.
//!
//! Fair as Linux's `rw_semaphore` without its optimistic spinning and lock stealing
//! (`kernel/locking/rwsem.c`): a task that finds waiters waits behind them, and a release grants
//! the writer at the head of the queue, or all readers up to the next writer. Taking and releasing
//! cost nothing; charge what they should cost.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::distance::Distance;
use crate::ids::{NONE, Toll};
use crate::queue::wait_list::WaitList;
use crate::runtime::context::Cx;
use crate::runtime::deadlock::Resource;
use crate::runtime::executor::Handle;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;

/// [`Node::note`](crate::runtime::node::Node::note) of a waiting reader and of a waiting writer.
const READ: u32 = 0;
const WRITE: u32 = 1;

/// A fair reader-writer semaphore; clones are the same semaphore.
#[derive(Clone)]
pub struct RwSem(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    title: String,
    toll: Toll,
    wake_up: Distance,
    wait: WaitFor,
    writer: Cell<u32>,
    readers: RefCell<Vec<u32>>,
    waiters: WaitList,
}

impl RwSem {
    /// A free semaphore. An acquisition that had to sleep is recorded under `toll` with the time from
    /// the first try to running again; `wake_up` is the time from release to when the next holder can
    /// run.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, wake_up: Distance) -> Self {
        let title = format!("rwsem `{name}`");
        Self::with_title(handle, title, toll, wake_up)
    }

    /// The same, called something else in a [`Deadlock`](crate::Deadlock).
    pub(crate) fn with_title(
        handle: &Handle,
        title: String,
        toll: Toll,
        wake_up: Distance,
    ) -> Self {
        Self(Rc::new_cyclic(|sem: &Weak<Inner>| Inner {
            wait: handle.0.register(sem.clone()),
            kernel: Rc::clone(&handle.0),
            title,
            toll,
            wake_up,
            writer: Cell::new(NONE),
            readers: RefCell::default(),
            waiters: WaitList::new(),
        }))
    }

    /// Sleeps until this task is among the readers.
    pub async fn read<'a>(&'a self, cx: &'a Cx) -> ReadGuard<'a> {
        self.0.acquire(cx, READ).await;
        ReadGuard {
            sem: &self.0,
            task: cx.index(),
        }
    }

    /// Sleeps until this task is the writer.
    pub async fn write<'a>(&'a self, cx: &'a Cx) -> WriteGuard<'a> {
        self.0.acquire(cx, WRITE).await;
        WriteGuard { sem: &self.0 }
    }

    /// How many tasks wait.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters.len()
    }
}

impl Inner {
    async fn acquire(&self, cx: &Cx, mode: u32) {
        let since = cx.now();
        if !self.take(cx, mode) {
            cx.sleep_here().await;
            cx.record(self.toll, cx.now().since(since));
        }
    }

    /// Takes the semaphore if no holder or waiter is in the way, otherwise queues the task and suspends it.
    fn take(&self, cx: &Cx, mode: u32) -> bool {
        let task = cx.index();
        if !cx.is_of(&self.kernel, || self.title()) || !self.kernel.may_sleep(task) {
            return false;
        }
        if self.waiters.is_empty() && self.admits(mode) {
            self.admit(task, mode);
            return true;
        }
        if self.kernel.sleep(task, self.wait) {
            self.kernel.node(task).note.set(mode);
            self.waiters.push_back(&self.kernel.links, task);
        }
        false
    }

    fn admits(&self, mode: u32) -> bool {
        self.writer.get() == NONE && (mode == READ || self.readers.borrow().is_empty())
    }

    fn admit(&self, task: u32, mode: u32) {
        if mode == READ {
            self.readers.borrow_mut().push(task);
        } else {
            self.writer.set(task);
        }
    }

    /// Grants the semaphore to the first waiters for whom it is free.
    fn grant(&self, from: u32) {
        let kernel = &*self.kernel;
        while let Some(next) = self.waiters.front() {
            let mode = kernel.node(next).note.get();
            if !self.admits(mode) {
                return;
            }
            self.waiters.pop_front(&kernel.links);
            self.admit(next, mode);
            let delay = self
                .wake_up
                .between(kernel.core_of(from), kernel.core_of(next));
            kernel.resume_after(next, delay);
        }
    }

    fn release_read(&self, task: u32) {
        let mut readers = self.readers.borrow_mut();
        if let Some(i) = readers.iter().position(|&reader| reader == task) {
            readers.swap_remove(i);
        }
        drop(readers);
        self.grant(task);
    }

    fn release_write(&self) {
        let writer = self.writer.replace(NONE);
        self.grant(writer);
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        self.title.clone()
    }

    /// Its writer or its readers; if they would not be in the way, the first waiter, who is.
    fn holders(&self, kernel: &Kernel, waiter: u32) -> Vec<u32> {
        if self.writer.get() != NONE {
            return vec![self.writer.get()];
        }
        let ahead = self.waiters.front().filter(|&first| first != waiter);
        match (kernel.node(waiter).note.get(), ahead) {
            (READ, Some(first)) => vec![first],
            _ => self.readers.borrow().clone(),
        }
    }
}

/// The right to read; dropping it releases the semaphore.
#[must_use = "the semaphore is released at once"]
pub struct ReadGuard<'a> {
    sem: &'a Inner,
    task: u32,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        self.sem.release_read(self.task);
    }
}

/// The right to write; dropping it releases the semaphore.
#[must_use = "the semaphore is released at once"]
pub struct WriteGuard<'a> {
    sem: &'a Inner,
}

impl WriteGuard<'_> {
    /// How many tasks wait; releasing wakes at least one of them.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.sem.waiters.len()
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.sem.release_write();
    }
}

//! A sleeping lock: waiters leave their cores and get the lock first in, first out.
//!
//! Taking a free mutex and releasing it cost nothing; charge what they should cost, and the waker's
//! own work if [`MutexGuard::waiters`] says that there is somebody to wake.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use crate::context::Cx;
use crate::deadlock::Resource;
use crate::distance::Distance;
use crate::executor::Handle;
use crate::ids::{NONE, Toll};
use crate::kernel::Kernel;
use crate::node::WaitFor;
use crate::wait_list::WaitList;

/// A first-in first-out mutex; clones are the same mutex.
#[derive(Clone)]
pub struct Mutex(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    name: String,
    toll: Toll,
    wake_up: Distance,
    wait: WaitFor,
    holder: Cell<u32>,
    waiters: WaitList,
}

impl Mutex {
    /// A free mutex. An acquisition that had to sleep is recorded under `toll` with the time from the
    /// first try to running again; `wake_up` is the time from release to when the next holder can run.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, wake_up: Distance) -> Self {
        Self(Rc::new_cyclic(|mutex: &Weak<Inner>| Inner {
            wait: handle.0.register(mutex.clone()),
            kernel: Rc::clone(&handle.0),
            name: name.to_owned(),
            toll,
            wake_up,
            holder: Cell::new(NONE),
            waiters: WaitList::new(),
        }))
    }

    /// Sleeps until the mutex is this task's.
    pub async fn lock<'a>(&'a self, cx: &'a Cx) -> MutexGuard<'a> {
        let since = cx.now();
        if !self.0.take(cx) {
            cx.sleep_here().await;
            cx.record(self.0.toll, cx.now().since(since));
        }
        MutexGuard(&self.0)
    }
}

impl Inner {
    /// Takes the mutex if it is free, otherwise queues the task and suspends it.
    fn take(&self, cx: &Cx) -> bool {
        let task = cx.index();
        if !cx.is_of(&self.kernel, || self.title()) || !self.kernel.may_sleep(task) {
            return false;
        }
        if self.holder.get() == NONE {
            self.holder.set(task);
            return true;
        }
        if self.kernel.sleep(task, self.wait) {
            self.waiters.push_back(&self.kernel.links, task);
        }
        false
    }

    fn release(&self) {
        let kernel = &*self.kernel;
        let next = self.waiters.pop_front(&kernel.links).unwrap_or(NONE);
        let holder = self.holder.replace(next);
        if next != NONE {
            let delay = self
                .wake_up
                .between(kernel.core_of(holder), kernel.core_of(next));
            kernel.resume_after(next, delay);
        }
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        format!("mutex `{}`", self.name)
    }

    fn holders(&self, _: &Kernel, _: u32) -> Vec<u32> {
        vec![self.holder.get()]
    }
}

/// A mutex held; dropping it hands the mutex to the next waiter.
#[must_use = "the mutex is released at once"]
pub struct MutexGuard<'a>(&'a Inner);

impl MutexGuard<'_> {
    /// How many tasks wait; releasing wakes one of them.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.0.waiters.len()
    }
}

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

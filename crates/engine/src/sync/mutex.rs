//! A sleeping lock: waiters leave their cores and get the lock first in, first out.
//!
//! Taking a free mutex and releasing it cost nothing; charge what they should cost, and the waker's
//! own work if [`MutexGuard::waiters`] is not 0.

use crate::distance::Distance;
use crate::ids::Toll;
use crate::runtime::context::Cx;
use crate::runtime::executor::Handle;
use crate::sync::rwsem::{RwSem, WriteGuard};

/// A first-in first-out mutex, which is an [`RwSem`] without readers; clones are the same mutex.
#[derive(Clone)]
pub struct Mutex(RwSem);

/// A mutex held; dropping it hands the mutex to the next waiter.
pub type MutexGuard<'a> = WriteGuard<'a>;

impl Mutex {
    /// A free mutex. An acquisition that had to sleep is recorded under `toll` with the time from the
    /// first try to running again; `wake_up` is the time from release to when the next holder can run.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, wake_up: Distance) -> Self {
        let title = format!("mutex `{name}`");
        Self(RwSem::with_title(handle, title, toll, wake_up))
    }

    /// Sleeps until the mutex is this task's.
    pub async fn lock<'a>(&'a self, cx: &'a Cx) -> MutexGuard<'a> {
        self.0.write(cx).await
    }
}

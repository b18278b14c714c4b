//! Faults of a disk for tests, as SQLite's are: the n-th step of a thread fails, or is the last of its process.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// An event at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The system call fails, once.
    Fails(Errno),
    /// The process ends: neither this step nor any later one is done, cleaning up included.
    Killed,
}

/// Which step, from 0, and what happens at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) step: usize,
    pub(super) fault: Fault,
}

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    static DONE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Does some work with this fault; the steps that it came to are returned beside its result.
pub(super) fn with<T>(plan: Option<Plan>, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    PLAN.set(plan);
    DONE.take();
    let result = work();
    PLAN.set(None);
    (result, DONE.take())
}

/// A step of [`super::disk`].
pub(in crate::cache) fn at(step: &str, path: &Path) -> io::Result<()> {
    let number = DONE.with_borrow_mut(|done| {
        done.push(format!("{step} {}", path.display()));
        done.len() - 1
    });
    match PLAN.get() {
        Some(plan) if plan.fault == Fault::Killed && number >= plan.step => Err(Errno::IO.into()),
        Some(Plan {
            step,
            fault: Fault::Fails(errno),
        }) if number == step => Err(errno.into()),
        _ => Ok(()),
    }
}

//! Threads that wait for a page: the queue of unread faults, and the queue of those that were read.

use std::collections::VecDeque;

use pagetoll_units::Hva;

use crate::mm::Reason;

/// A thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// A fault that waits: `struct userfaultfd_wait_queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Thread that sleeps.
    pub thread: ThreadId,
    /// The address that the message carries and by which the thread is woken: of the page, or the exact one.
    pub address: Hva,
    /// Reason why the userfaultfd gets the fault.
    pub reason: Reason,
    /// Set for a write.
    pub write: bool,
}

/// The two queues of a userfaultfd. A fault is in one of them from when its thread falls asleep until it is woken.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// `fault_pending_wqh`: not read yet, the oldest first.
    pending: VecDeque<Fault>,
    /// `fault_wqh`: read.
    read: VecDeque<Fault>,
}

impl Queues {
    /// A thread falls asleep: `handle_userfault`.
    pub fn push(&mut self, fault: Fault) {
        self.pending.push_back(fault);
    }

    /// Moves the oldest unread fault to the queue of read ones: `userfaultfd_ctx_read`.
    pub fn refile(&mut self) -> Option<Fault> {
        let fault = self.pending.pop_front()?;
        self.read.push_back(fault);
        Some(fault)
    }

    /// Wakes every thread whose address is in a range: `userfaultfd_wake_function` over both queues.
    pub fn wake(&mut self, start: Hva, len: u64) -> Vec<ThreadId> {
        let within = |fault: &Fault| start <= fault.address && fault.address.0 - start.0 < len;
        let mut woken = Vec::new();
        for queue in [&mut self.pending, &mut self.read] {
            queue.retain(|fault| {
                let wakes = within(fault);
                woken.extend(wakes.then_some(fault.thread));
                !wakes
            });
        }
        woken
    }

    /// Number of unread faults.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Number of faults that wait, read or unread.
    #[must_use]
    pub fn total(&self) -> usize {
        self.pending.len() + self.read.len()
    }
}

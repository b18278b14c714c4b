//! Making a userfaultfd, agreeing on its interface, reading and polling it, closing it.

use pagetoll_units::Hva;

use super::{Fault, Queues, ThreadId, UffdId, Userfaultfd};
use crate::Errno;
use crate::mm::{Mm, TASK_SIZE};

/// `UFFD_API`: the only version there is.
const UFFD_API: u64 = 0xaa;
/// `UFFD_PAGEFAULT_FLAG_WRITE`.
const FLAG_WRITE: u64 = 1 << 0;
/// `sizeof(struct uffd_msg)`.
const MESSAGE: u64 = 32;

/// The flags of userfaultfd(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// `O_NONBLOCK`.
    pub nonblocking: bool,
    /// `UFFD_USER_MODE_ONLY`: faults of the kernel's own are errors.
    pub user_mode_only: bool,
}

bitflags::bitflags! {
    /// `UFFD_FEATURE_*`: bits of include/uapi/linux/userfaultfd.h.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Features: u64 {
        /// A fault fails the access: SIGBUS, or `EFAULT` of a system call.
        const SIGBUS = 1 << 7;
        /// Messages have the address that was touched, not that of its page.
        const EXACT_ADDRESS = 1 << 11;
        /// Protection from writes holds where no page is mapped, too.
        const WP_UNPOPULATED = 1 << 13;
        /// Protection resolves itself; needs [`Self::WP_UNPOPULATED`] and brings it.
        const WP_ASYNC = 1 << 15;
        /// The others that Linux 6.18 has on x86-64 (`UFFD_API_FEATURES`).
        const OTHERS = (1 << 17) - 1;
    }
}

/// Answer of poll(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// No unread fault.
    Nothing,
    /// `POLLIN`.
    In,
    /// `POLLERR`.
    Error,
}

/// The message of a fault: `struct uffd_msg` with `UFFD_EVENT_PAGEFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The address.
    pub address: Hva,
    /// `UFFD_PAGEFAULT_FLAG_*`.
    pub flags: u64,
}

impl Mm {
    /// userfaultfd(2), by a thread that may (`CAP_SYS_PTRACE`).
    pub fn userfaultfd(&mut self, opened: OpenFlags) -> UffdId {
        self.userfaultfds.push(Userfaultfd {
            opened,
            features: None,
            released: false,
            queues: Queues::default(),
        });
        UffdId(self.userfaultfds.len() - 1)
    }

    /// The queues of a userfaultfd; `None` for one that is closed.
    #[must_use]
    pub fn queues(&self, uffd: UffdId) -> Option<&Queues> {
        let found = self.userfaultfds.get(uffd.0)?;
        (!found.released).then_some(&found.queues)
    }

    /// The userfaultfd, if it is open: else `EBADF`.
    pub(super) fn open_userfaultfd(&mut self, uffd: UffdId) -> Result<&mut Userfaultfd, Errno> {
        let found = self.userfaultfds.get_mut(uffd.0);
        found.filter(|found| !found.released).ok_or(Errno::BadF)
    }

    /// The userfaultfd, once its interface was agreed on: else `EINVAL`, as `userfaultfd_ioctl` has it.
    pub(super) fn agreed(&mut self, uffd: UffdId) -> Result<(&mut Userfaultfd, Features), Errno> {
        let found = self.open_userfaultfd(uffd)?;
        let features = found.features.ok_or(Errno::Inval)?;
        Ok((found, features))
    }

    /// `UFFDIO_API`.
    ///
    /// # Errors
    /// `EINVAL` for another version, features that there are not, or a second time.
    pub fn uffdio_api(&mut self, uffd: UffdId, api: u64, features: Features) -> Result<(), Errno> {
        let found = self.open_userfaultfd(uffd)?;
        let known = Features::all().contains(features);
        if api != UFFD_API || !known || found.features.is_some() {
            return Err(Errno::Inval);
        }
        let brings = match features.contains(Features::WP_ASYNC) {
            true => Features::WP_UNPOPULATED,
            false => Features::default(),
        };
        found.features = Some(features | brings);
        Ok(())
    }

    /// read(2) into a buffer of `bytes`; returns one message at most.
    ///
    /// # Errors
    /// `EAGAIN` without an unread fault; `EINVAL` before `UFFDIO_API` or without room.
    pub fn read_userfaultfd(&mut self, uffd: UffdId, bytes: u64) -> Result<Message, Errno> {
        let (found, _) = self.agreed(uffd)?;
        if bytes < MESSAGE {
            return Err(Errno::Inval);
        }
        let fault = found.queues.refile().ok_or(Errno::Again)?;
        Ok(message(fault))
    }

    /// poll(2).
    ///
    /// # Errors
    /// `EBADF` for a closed one.
    pub fn poll_userfaultfd(&mut self, uffd: UffdId) -> Result<Poll, Errno> {
        let found = self.open_userfaultfd(uffd)?;
        Ok(match (found.features, found.opened.nonblocking) {
            (None, _) | (_, false) => Poll::Error,
            _ if found.queues.pending() > 0 => Poll::In,
            _ => Poll::Nothing,
        })
    }

    /// close(2): ends all registrations and wakes everybody.
    ///
    /// # Errors
    /// `EBADF` for a closed one.
    pub fn close_userfaultfd(&mut self, uffd: UffdId) -> Result<Vec<ThreadId>, Errno> {
        let found = self.open_userfaultfd(uffd)?;
        found.released = true;
        let woken = found.queues.wake(Hva(0), u64::MAX);
        let own: Vec<_> = self
            .vmas_in(0, TASK_SIZE)
            .filter(|vma| vma.registration.is_some_and(|by| by.uffd == uffd))
            .map(|vma| (vma.start.0, vma.end.0))
            .collect();
        for (start, end) in own {
            self.clear_registration(start, end);
        }
        Ok(woken)
    }

    /// Returns whether faults wait in a userfaultfd's queue; else they are errors. Every fault here is the kernel's
    /// own.
    pub(crate) fn waits_on(&self, uffd: UffdId) -> bool {
        self.userfaultfds.get(uffd.0).is_some_and(|found| {
            let sigbus = found
                .features
                .is_some_and(|own| own.contains(Features::SIGBUS));
            !sigbus && !found.opened.user_mode_only
        })
    }

    /// Returns whether messages have the very address that was touched.
    pub(crate) fn has_exact_address(&self, uffd: UffdId) -> bool {
        let features = self
            .userfaultfds
            .get(uffd.0)
            .and_then(|found| found.features);
        features.is_some_and(|own| own.contains(Features::EXACT_ADDRESS))
    }

    /// A thread falls asleep.
    pub(crate) fn queue(&mut self, uffd: UffdId, fault: Fault) {
        if let Some(found) = self.userfaultfds.get_mut(uffd.0) {
            found.queues.push(fault);
        }
    }
}

/// `userfault_msg`.
fn message(fault: Fault) -> Message {
    let write = if fault.write { FLAG_WRITE } else { 0 };
    Message {
        address: fault.address,
        flags: write | fault.reason.flag(),
    }
}

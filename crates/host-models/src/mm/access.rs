//! Accesses of a word, by a thread that may have to sleep for it.

use pagetoll_units::Hva;

use super::{FaultError, Mm, PAGE_SIZE, PteTarget, Reason};
use crate::userfaultfd::{Fault, ThreadId, UffdId};

/// An access to the first word of a page or, for reading, to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes this.
    Write(u64),
}

impl Access {
    /// Returns whether the access writes.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write(_))
    }
}

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessResult {
    /// The word that was read or written.
    Done(u64),
    /// `EFAULT`.
    Error,
    /// The thread sleeps in a userfaultfd's queue, and retries once woken.
    Sleeps,
}

impl Mm {
    /// A thread accesses the word at an address by a system call.
    pub fn access(&mut self, thread: ThreadId, at: Hva, access: Access) -> AccessResult {
        match self.fault_in_or_sleep(thread, at, access) {
            AccessResult::Done(_) => self
                .touch(at, access)
                .map_or(AccessResult::Error, AccessResult::Done),
            other => other,
        }
    }

    /// Makes a page accessible, or puts the thread to sleep until another one has: `get_user_pages_unlocked`.
    pub(crate) fn fault_in_or_sleep(
        &mut self,
        thread: ThreadId,
        at: Hva,
        access: Access,
    ) -> AccessResult {
        match self.fault_in(at, access) {
            Ok(()) => AccessResult::Done(0),
            Err(FaultError::Fault) => AccessResult::Error,
            Err(FaultError::Userfault(uffd, reason)) => {
                let fault = Fault {
                    thread,
                    address: self.message_address(uffd, at),
                    reason,
                    write: access.is_write(),
                };
                self.queue(uffd, fault);
                AccessResult::Sleeps
            }
        }
    }

    /// The address in a userfaultfd's message, by which it is woken, too: that of the page, large as it is, or the very
    /// one that was touched (`vmf->address`, `vmf->real_address`).
    fn message_address(&self, uffd: UffdId, at: Hva) -> Hva {
        match self.has_exact_address(uffd) {
            true => at,
            false => Hva(self.page_of(at)),
        }
    }

    /// Reads or writes through an entry that allows it.
    pub(crate) fn touch(&mut self, at: Hva, access: Access) -> Option<u64> {
        let page_start = self.page_of(at);
        let Access::Write(word) = access else {
            let page = self.content(at)?;
            return Some(match at.0 == page_start {
                true => page.first,
                false => page.rest,
            });
        };
        match &mut self.ptes.get_mut(page_start / PAGE_SIZE)?.mapped {
            PteTarget::Private(page) => page.first = word,
            PteTarget::Shared(file, index) => {
                let (file, index) = (*file, *index);
                let cache = self.files.get_mut(file.0)?;
                let mut page = cache.page(index)?;
                page.first = word;
                cache.set(index, page);
            }
            PteTarget::Zero | PteTarget::Nothing => return None,
        }
        Some(word)
    }
}

impl Reason {
    /// `UFFD_PAGEFAULT_FLAG_WP` and `_MINOR` of include/uapi/linux/userfaultfd.h.
    pub(crate) const fn flag(self) -> u64 {
        match self {
            Self::Missing => 0,
            Self::WriteProtect => 1 << 1,
            Self::Minor => 1 << 2,
        }
    }
}

//! Areas of a process's memory, and which userfaultfd watches them.

use pagetoll_units::Hva;

use super::{HUGE_PAGE_SIZE, PAGE_SIZE};
use crate::userfaultfd::UffdId;

/// A file that memory can be mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub(super) usize);

/// Source of the pages of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Nowhere: they are this process's own (`vma_is_anonymous`).
    Anonymous,
    /// A memfd, shared, from this page on (`vma_is_shmem`, `VM_SHARED`).
    Shmem(FileId, u64),
    /// A memfd of hugetlb pages, shared, from this page of 2 MiB on (`is_vm_hugetlb_page`).
    Hugetlb(FileId, u64),
}

/// Accesses that the process may make to an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read and write.
    ReadWrite,
    /// Read, and write after an mprotect(2) (`VM_MAYWRITE` without `VM_WRITE`).
    Read,
    /// Read alone for good: a file that was opened for reading, shared (no `VM_MAYWRITE`).
    ReadForGood,
}

bitflags::bitflags! {
    /// Faults of an area that go to its userfaultfd: `UFFDIO_REGISTER_MODE_*` as bits of include/uapi/linux/userfaultfd.h.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Modes: u64 {
        /// Pages that are not there.
        const MISSING = 1 << 0;
        /// Writes to pages that are protected.
        const WP = 1 << 1;
        /// Pages that the page cache has and this mapping has not.
        const MINOR = 1 << 2;
    }
}

/// The userfaultfd that an area is registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Userfaultfd that watches the area.
    pub uffd: UffdId,
    /// Faults that it gets.
    pub modes: Modes,
}

/// An area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// Its first byte.
    pub start: Hva,
    /// The first byte after it.
    pub end: Hva,
    /// Source of its pages.
    pub backing: Backing,
    /// Accesses that the process may make.
    pub permission: Permission,
    /// The userfaultfd that watches it, and for which faults.
    pub registration: Option<Registration>,
}

impl Vma {
    /// Bytes of its pages: `vma_kernel_pagesize`.
    #[must_use]
    pub const fn page_size(&self) -> u64 {
        match self.backing {
            Backing::Hugetlb(..) => HUGE_PAGE_SIZE,
            Backing::Anonymous | Backing::Shmem(..) => PAGE_SIZE,
        }
    }

    /// Returns whether a userfaultfd gets all these faults.
    #[must_use]
    pub fn watches(&self, modes: Modes) -> bool {
        self.registration
            .is_some_and(|own| own.modes.contains(modes))
    }

    /// Returns whether pages are mapped writable whatever they were touched for: `vm_page_prot`, which a userfaultfd's
    /// write protection of a shared file takes the write bit from (`vma_wants_writenotify`).
    pub(super) fn maps_writable(&self) -> bool {
        let notifies = matches!(self.backing, Backing::Shmem(..)) && self.watches(Modes::WP);
        self.permission == Permission::ReadWrite && !notifies
    }

    /// Returns whether the kernel can report these faults at all: `vma_can_userfault`.
    #[must_use]
    pub const fn can_userfault(&self, modes: Modes) -> bool {
        !(matches!(self.backing, Backing::Anonymous) && modes.contains(Modes::MINOR))
    }

    /// The page of its file at an address: `linear_page_index`.
    pub(crate) fn file_page(&self, at: Hva) -> Option<(FileId, u64)> {
        let offset = (at.0 - self.start.0) / self.page_size();
        match self.backing {
            Backing::Anonymous => None,
            Backing::Shmem(file, first) | Backing::Hugetlb(file, first) => {
                Some((file, first + offset))
            }
        }
    }

    /// Cuts what is from `at` on off, and gives it.
    pub(super) fn cut(&mut self, at: Hva) -> Self {
        let mut upper = *self;
        upper.start = at;
        if let Some((_, first)) = self.file_page(at) {
            upper.backing = match self.backing {
                Backing::Anonymous => Backing::Anonymous,
                Backing::Shmem(file, _) => Backing::Shmem(file, first),
                Backing::Hugetlb(file, _) => Backing::Hugetlb(file, first),
            };
        }
        self.end = at;
        upper
    }

    /// Takes the next area in if the two are one: `vma_merge`.
    pub(super) fn take_in(&mut self, next: &Self) -> bool {
        let mut whole = *self;
        whole.end = next.end;
        let one = self.end == next.start && whole.cut(next.start) == *next;
        if one {
            self.end = next.end;
        }
        one
    }
}

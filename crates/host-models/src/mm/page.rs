//! Pages, the entries that map them, and the page caches of files.

use std::collections::BTreeMap;

use super::{FileId, Vma};

/// The content of a page, compressed: its first word, and the word that fills the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Bytes 0 to 7.
    pub first: u64,
    /// Every other word.
    pub rest: u64,
}

impl Page {
    /// A page of zeroes.
    pub const ZERO: Self = Self { first: 0, rest: 0 };

    /// A page of one word throughout.
    #[must_use]
    pub const fn new(word: u64) -> Self {
        Self {
            first: word,
            rest: word,
        }
    }
}

/// Target of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PteTarget {
    /// No page: a marker that remembers write protection (`PTE_MARKER_UFFD_WP`).
    Nothing,
    /// The kernel's page of zeroes, never writable and none that `get_user_pages_fast` gives out (`pte_special`).
    Zero,
    /// A page of this process alone.
    Private(Page),
    /// A page of a file's page cache, by its index.
    Shared(FileId, u64),
}

/// A leaf entry of the page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pte {
    /// The page.
    pub mapped: PteTarget,
    /// Writes go through without a fault.
    pub writable: bool,
    /// A userfaultfd protects the page from writes (`pte_uffd_wp`).
    pub uffd_wp: bool,
    /// Number of the change of this address space that set it. A holder of a translation (KVM, by its MMU notifier) may
    /// use it as long as the number is the same.
    pub serial: u64,
}

impl Pte {
    /// A page that can be read.
    pub(crate) const fn readable(mapped: PteTarget) -> Self {
        Self {
            mapped,
            writable: false,
            uffd_wp: false,
            serial: 0,
        }
    }

    /// A page of an area, that can be written if the area can.
    pub(crate) fn new(vma: &Vma, mapped: PteTarget) -> Self {
        Self {
            writable: vma.maps_writable(),
            ..Self::readable(mapped)
        }
    }

    /// The page, protected from writes by a userfaultfd.
    #[must_use]
    pub(crate) const fn protected(self) -> Self {
        Self {
            writable: false,
            uffd_wp: true,
            ..self
        }
    }

    /// Returns whether a page is mapped: `pte_present`.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        !matches!(self.mapped, PteTarget::Nothing)
    }
}

/// The pages of a file in memory.
#[derive(Clone, Debug, Default)]
pub struct PageCache {
    pages: BTreeMap<u64, Page>,
}

impl PageCache {
    /// The page at an index; `None` for a hole.
    #[must_use]
    pub fn page(&self, index: u64) -> Option<Page> {
        self.pages.get(&index).copied()
    }

    /// Adds a page, or replaces it.
    pub fn set(&mut self, index: u64, page: Page) {
        self.pages.insert(index, page);
    }
}

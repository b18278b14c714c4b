//! The process whose memory is mapped: its page tables, and what it may lock.
//!
//! `mm_struct`, `pin_user_pages_remote` (mm/gup.c) and RLIMIT_MEMLOCK of Linux. Pages are present from the start.

use std::collections::BTreeMap;

use super::{Errno, PAGE};

/// Contiguous pages under one entry of a page table, or several entries of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The first frame.
    pub pfn: u64,
    /// Pages of 4 KiB.
    pub pages: u64,
    /// The process may write to it.
    pub writable: bool,
    /// No `struct page` is there to be pinned: VM_PFNMAP, a device's registers.
    pub pfnmap: bool,
}

/// Result of `pin_user_pages_remote`, or for a `pfnmap` of `follow_fault_pfn`, at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRun {
    /// The frame.
    pub(super) pfn: u64,
    /// Pages from there to the end of the entry.
    pub(super) rest: u64,
    /// The entry is larger than a page.
    pub(super) is_large: bool,
    pub(super) pfnmap: bool,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    leaves: BTreeMap<u64, Leaf>,
    /// Pages that are accounted to it: `mm->locked_vm`.
    pub locked_vm: u64,
    /// RLIMIT_MEMLOCK in pages; `None`: it has CAP_IPC_LOCK, and nothing limits it.
    pub limit: Option<u64>,
}

impl Process {
    /// Maps memory at an address, which is a multiple of [`PAGE`].
    pub fn map(&mut self, vaddr: u64, leaf: Leaf) {
        self.leaves.insert(vaddr / PAGE, leaf);
    }

    /// Looks an address up.
    ///
    /// # Errors
    /// [`Errno::Fault`] where no memory is, or where the process may not write although `write` is asked for.
    pub(super) fn find(&self, vaddr: u64, write: bool) -> Result<PageRun, Errno> {
        let page = vaddr / PAGE;
        let (first, leaf) = self.leaves.range(..=page).next_back().ok_or(Errno::Fault)?;
        let inside = page - first;
        if inside >= leaf.pages || (write && !leaf.writable) {
            return Err(Errno::Fault);
        }
        Ok(PageRun {
            pfn: leaf.pfn + inside,
            rest: leaf.pages - inside,
            is_large: leaf.pages > 1,
            pfnmap: leaf.pfnmap,
        })
    }

    /// The frame at an address, as the CPU sees it.
    #[must_use]
    pub fn pfn(&self, vaddr: u64) -> Option<u64> {
        self.find(vaddr, false).ok().map(|found| found.pfn)
    }

    /// Returns whether `RLIMIT_MEMLOCK` allows `pages` more.
    #[must_use]
    pub fn may_lock(&self, pages: u64) -> bool {
        self.limit
            .is_none_or(|limit| self.locked_vm + pages <= limit)
    }
}

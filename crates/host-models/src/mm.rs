//! A process's memory as demand paging sees it: areas, pages with contents, page caches, and what faults do.
//!
//! Source: Linux 6.18. [`Mm`] is `struct mm_struct`, [`Vma`] `struct vm_area_struct`, [`Pte`] a leaf entry of the page
//! tables, [`PageCache`] the pages of a memfd; `mm/memory.c` and `mm/shmem.c` say what a fault does.
//!
//! Every access here is the kernel's own, on behalf of a system call or of `KVM_RUN`, as `get_user_pages` and
//! `copy_from_user` make them: memory that cannot be reached is `EFAULT`, never a signal.
//!
//! Not here: swap, fork, transparent huge pages, fault-around (a read maps the page that was read and no neighbour),
//! private mappings of files, protection keys, reverse maps: areas that are alike are always joined, which a real kernel
//! does not do with some that have been used apart (`is_mergeable_anon_vma`).

mod access;
mod fault;
mod page;
mod vma;

pub use access::{Access, AccessResult};
pub use fault::{FaultError, Reason};
pub use page::{Page, PageCache, Pte, PteTarget};
pub use vma::{Backing, FileId, Modes, Permission, Registration, Vma};

use std::ops::Range;

use pagetoll_units::Hva;

use crate::Errno;
use crate::page_map::PageMap;
use crate::userfaultfd::Userfaultfd;

/// Bytes of a base page: `PAGE_SIZE` of x86-64.
pub const PAGE_SIZE: u64 = pagetoll_units::PAGE_SIZE.get();
/// Bytes of a hugetlb page: `PMD_SIZE` of x86-64.
pub const HUGE_PAGE_SIZE: u64 = 2 << 20;
/// The first address that is no user space's: `TASK_SIZE_MAX` of x86-64 with four levels of page tables.
pub const TASK_SIZE: u64 = (1 << 47) - PAGE_SIZE;

/// The memory of a process.
#[derive(Clone, Debug, Default)]
pub struct Mm {
    /// Areas in the order of their addresses, none overlapping.
    vmas: Vec<Vma>,
    /// Leaf entries by the number of their page: of a large one that of its first base page.
    ptes: PageMap<Pte>,
    files: Vec<PageCache>,
    pub(crate) userfaultfds: Vec<Userfaultfd>,
    /// Number of entries that were ever set or cleared.
    changes: u64,
}

impl Mm {
    /// A process without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new file without pages, as memfd_create(2) makes it.
    pub fn create_file(&mut self) -> FileId {
        self.files.push(PageCache::default());
        FileId(self.files.len() - 1)
    }

    /// The page cache of a file; `None` for a file that there is not.
    pub fn file_mut(&mut self, file: FileId) -> Option<&mut PageCache> {
        self.files.get_mut(file.0)
    }

    /// Maps memory, as mmap(2) does at a free address.
    pub fn map(&mut self, vma: Vma) {
        let at = self.vmas.partition_point(|other| other.start < vma.start);
        self.vmas.insert(at, vma);
    }

    /// Puts a page into anonymous memory, as its owner did before it was registered with a userfaultfd.
    pub fn populate(&mut self, at: Hva, page: Page) {
        if let Some(vma) = self.vma(at) {
            let pte = Pte::new(vma, PteTarget::Private(page));
            self.set_pte(at, pte);
        }
    }

    /// Removes the mappings and pages of a range, as munmap(2).
    pub fn unmap(&mut self, start: Hva, bytes: u64) {
        self.split_at(start.0);
        self.split_at(start.0 + bytes);
        self.vmas
            .retain(|vma| vma.end.0 <= start.0 || vma.start.0 >= start.0 + bytes);
        self.zap(start, bytes);
    }

    /// Drops the pages of a range, as madvise(2) with `MADV_DONTNEED`; a file keeps its own.
    ///
    /// # Errors
    /// `ENOMEM` for a range with holes, of which the rest is dropped all the same (`madvise_walk_vmas`).
    pub fn discard(&mut self, start: Hva, bytes: u64) -> Result<(), Errno> {
        self.zap(start, bytes);
        let end = start.0 + bytes;
        let within = |vma: &Vma| vma.end.0.min(end) - vma.start.0.max(start.0);
        let covered: u64 = self.vmas_in(start.0, end).map(within).sum();
        match covered == bytes {
            true => Ok(()),
            false => Err(Errno::NoMem),
        }
    }

    fn zap(&mut self, start: Hva, bytes: u64) {
        self.ptes.clear_range(pages_from(start, bytes));
        self.changes += 1;
    }

    /// The area that holds an address: `vma_lookup`.
    #[must_use]
    pub fn vma(&self, at: Hva) -> Option<&Vma> {
        let found = self.vmas.partition_point(|vma| vma.end.0 <= at.0);
        self.vmas.get(found).filter(|vma| vma.start <= at)
    }

    /// The areas that overlap a range, in order: `for_each_vma_range`.
    pub(crate) fn vmas_in(&self, start: u64, end: u64) -> impl Iterator<Item = &Vma> {
        self.vmas
            .iter()
            .filter(move |vma| vma.start.0 < end && vma.end.0 > start)
    }

    /// Gives the areas of a range to a userfaultfd, or takes them away; cuts what reaches beyond the range, and joins
    /// what has become alike: `vma_modify_flags_uffd`.
    pub(crate) fn set_registration(
        &mut self,
        start: u64,
        end: u64,
        registration: Option<Registration>,
    ) {
        self.split_at(start);
        self.split_at(end);
        for vma in &mut self.vmas {
            if vma.start.0 >= start && vma.end.0 <= end {
                vma.registration = registration;
            }
        }
        self.vmas.dedup_by(|next, vma| vma.take_in(next));
    }

    fn split_at(&mut self, at: u64) {
        let inside = |vma: &Vma| vma.start.0 < at && at < vma.end.0;
        if let Some(found) = self.vmas.iter().position(inside) {
            let upper = self.vmas[found].cut(Hva(at));
            self.vmas.insert(found + 1, upper);
        }
    }

    /// The entry of the page at an address.
    #[must_use]
    pub fn pte(&self, at: Hva) -> Option<&Pte> {
        self.ptes.get(self.page_of(at) / PAGE_SIZE)
    }

    pub(crate) fn set_pte(&mut self, at: Hva, mut pte: Pte) {
        self.changes += 1;
        pte.serial = self.changes;
        self.ptes.set(self.page_of(at) / PAGE_SIZE, pte);
    }

    pub(crate) fn clear_pte(&mut self, at: Hva) {
        self.changes += 1;
        self.ptes.clear(self.page_of(at) / PAGE_SIZE);
    }

    /// The address of the page that holds an address, of the size that its area has.
    fn page_of(&self, at: Hva) -> u64 {
        let size = self.vma(at).map_or(PAGE_SIZE, Vma::page_size);
        at.0 - at.0 % size
    }

    /// Content of the page at an address; `None` where no page is mapped.
    #[must_use]
    pub fn content(&self, at: Hva) -> Option<Page> {
        self.page(self.pte(at)?)
    }

    /// The pages that are mapped in a range, with their contents, in the order of their addresses.
    pub fn contents(&self, start: Hva, bytes: u64) -> impl Iterator<Item = (Hva, Page)> {
        let ptes = self.ptes.range(pages_from(start, bytes)).into_iter();
        ptes.filter_map(|(page, pte)| Some((Hva(page * PAGE_SIZE), self.page(pte)?)))
    }

    fn page(&self, pte: &Pte) -> Option<Page> {
        match pte.mapped {
            PteTarget::Nothing => None,
            PteTarget::Zero => Some(Page::ZERO),
            PteTarget::Private(page) => Some(page),
            PteTarget::Shared(file, index) => self.files.get(file.0)?.page(index),
        }
    }
}

/// Numbers of the base pages that begin in a range.
fn pages_from(start: Hva, bytes: u64) -> Range<u64> {
    start.0.div_ceil(PAGE_SIZE)..(start.0 + bytes).div_ceil(PAGE_SIZE)
}

//! The unmap route: a process's pages are mapped, all their entries are got and cleared, and each is compared with what
//! it was.
//!
//! Page `i` has frame `i` of a row, and A and D by `i` mod 4: neither, A, A and D, D alone, as in the lab.

use pagetoll_units::{Mfn, Pages};

use super::address_space::AddressSpace;
use super::kernel::Kernel;
use super::route_run::{Comparison, RouteRun};
use super::zap::{Zap, batch_size};
use crate::Error;
use crate::x86::{ENTRIES, Flags, PageTableEntry};
use crate::xen::{Layout, Width};

/// Flags of a program's anonymous pages (`vm_page_prot` of a private writable mapping, NX).
const USER_PAGE: Flags = Flags::PRESENT
    .union(Flags::WRITABLE)
    .union(Flags::USER)
    .union(Flags::NO_EXECUTE);
/// The combinations of A and D that a program's accesses leave.
const CLASSES: [Flags; 4] = [
    Flags::empty(),
    Flags::ACCESSED,
    Flags::ACCESSED.union(Flags::DIRTY),
    Flags::DIRTY,
];
const ACCESSED_DIRTY: Flags = Flags::ACCESSED.union(Flags::DIRTY);
/// Two tebibytes: what a process of this simulation may have.
const MOST: Pages = Pages(1 << 29);

/// Pages mapped by the entries that a program would have, in the order of their frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserPages {
    pub(super) first: Mfn,
    pub(super) width: Width,
}

impl UserPages {
    /// Entry that the guest stores.
    pub(super) fn wanted(self, page: u64) -> PageTableEntry {
        let class = usize::try_from(page % 4).unwrap_or(0);
        PageTableEntry::new(Mfn(self.first.0 + page), USER_PAGE | CLASSES[class])
    }

    /// Entry in the table afterwards: Xen makes user pages of 64-bit guests global.
    pub(super) fn entry(self, page: u64) -> PageTableEntry {
        match self.width {
            Width::Bits64 => self.wanted(page).with(Flags::GLOBAL),
            Width::Pae32 => self.wanted(page),
        }
    }
}

/// Maps and unmaps pages of a new guest of that width.
///
/// # Errors
/// Too many pages, or a batch that is none.
pub fn unmap(pages: Pages, zap: Zap, width: Width) -> Result<RouteRun, Error> {
    within_reach(pages)?;
    batch_size(zap.batch)?;
    let mut kernel = Kernel::boot(layout(pages, width))?;
    let space = AddressSpace::new(pages.get());
    let first = kernel.xen.allocate_row(pages);
    let mapped = UserPages { first, width };
    kernel.map(space, |page| mapped.wanted(page))?;
    let before = kernel.tolls();
    let mut checked = Comparison::default();
    kernel.zap_page_range(space, zap, |address, old| {
        let page = address.page() - space.start.page();
        checked.compare(mapped.entry(page), old);
    })?;
    let tolls = kernel.tolls() - before;
    checked.not_none = kernel.left_behind(space)?;
    checked.wrong_counts = kernel.wrong_counts(first, pages);
    Ok(RouteRun {
        items: pages.get(),
        tolls,
        checked,
    })
}

/// Rejects more pages than a guest can have.
pub(super) fn within_reach(pages: Pages) -> Result<(), Error> {
    if pages.get() == 0 || pages > MOST {
        let (asked, most) = (pages, MOST);
        return Err(Error::PagesOutOfRange { asked, most });
    }
    Ok(())
}

/// A machine with room for the pages, and for tables that map each of dom0's frames twice.
pub(super) fn layout(pages: Pages, width: Width) -> Layout {
    let tables = pages.get() / ENTRIES as u64;
    let dom0 = pages.get() + 3 * tables + 0x400;
    Layout {
        frames: Pages(0x100 + dom0),
        dom0: Mfn(0x100)..Mfn(0x100 + dom0),
        width,
        ..Layout::default()
    }
}

impl Comparison {
    pub(super) fn compare(&mut self, expected: PageTableEntry, returned: PageTableEntry) {
        self.items += 1;
        if expected == returned {
            return;
        }
        let lost = |bit| expected.has(bit) && !returned.has(bit);
        self.wrong_frame += u64::from(expected.mfn() != returned.mfn());
        self.wrong_flags +=
            u64::from(expected.flags() & !ACCESSED_DIRTY != returned.flags() & !ACCESSED_DIRTY);
        self.lost_accessed += u64::from(lost(Flags::ACCESSED));
        self.lost_dirty += u64::from(lost(Flags::DIRTY));
    }
}

impl Kernel {
    /// Entries that are not `pte_none()`, which ignores A and D (`_PAGE_KNL_ERRATUM_MASK`,
    /// arch/x86/include/asm/pgtable_types.h).
    fn left_behind(&mut self, space: AddressSpace) -> Result<u64, Error> {
        let tables: Vec<_> = self.page_tables(space).collect();
        let mut left = 0;
        for entries in tables {
            let mut words = [0; ENTRIES];
            let words = &mut words[..entries.count];
            self.load_entries(entries, words)?;
            let some = |word: &&u64| PageTableEntry(**word).without(ACCESSED_DIRTY).0 != 0;
            left += words.iter().filter(some).count() as u64;
        }
        Ok(left)
    }

    /// Frames that are not as a page is that only the direct map has: allocated, mapped once, writable.
    fn wrong_counts(&self, first: Mfn, pages: Pages) -> u64 {
        let counts = |mfn| {
            let frame = self.xen.frames().get(Mfn(mfn));
            frame.map(|frame| (frame.references, frame.type_count))
        };
        let all = first.0..first.0 + pages.get();
        all.filter(|&mfn| counts(mfn) != Some((2, 1))).count() as u64
    }
}

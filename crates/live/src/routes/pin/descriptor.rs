//! Page descriptors as large as Linux's, and what a pinning loop leaves in them.

use std::hint::black_box;

/// `compound_head` of a page that is a folio of its own, or its folio's first.
const HEAD: u32 = u32::MAX;
/// Only the loops hold references to a page.
const UNPINNED: u32 = 1;

/// The counts of one pass of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinned {
    /// Pages accounted to the process.
    pub(super) accounted: u64,
    /// Turns of the accounting loop.
    pub(super) turns: u64,
}

/// A descriptor: `struct page`, 64 bytes, of which the loops use the flags, the head and the count.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct PageDescriptor {
    /// `flags`: bit 0 is PG_reserved.
    pub(super) flags: u64,
    /// The frame of the folio's head, or [`HEAD`].
    pub(super) compound_head: u32,
    /// log2 of the folio's pages; of heads only.
    pub(super) order: u32,
    /// `_refcount`, in which pins are counted (GUP_PIN_COUNTING_BIAS is 1 here).
    pub(super) count: u32,
    _rest: [u32; 11],
}

const _: () = assert!(size_of::<PageDescriptor>() == 64);

/// Physical memory in folios of one size.
pub(super) struct Memory {
    pub(super) descriptors: Vec<PageDescriptor>,
    folio_pages: u64,
}

impl Memory {
    pub(super) fn new(pages: u64, folio_pages: u64) -> Self {
        let mask = folio_pages - 1;
        let descriptor = |pfn: u64| PageDescriptor {
            flags: 0,
            compound_head: if pfn & mask == 0 {
                HEAD
            } else {
                u32::try_from(pfn & !mask).unwrap_or(HEAD)
            },
            order: folio_pages.trailing_zeros(),
            count: UNPINNED,
            _rest: [0; 11],
        };
        Self {
            descriptors: (0..pages).map(descriptor).collect(),
            folio_pages,
        }
    }

    pub(super) fn pages(&self) -> u64 {
        u64::try_from(self.descriptors.len()).unwrap_or(u64::MAX)
    }

    /// The frame of a page's folio.
    pub(super) fn head(&self, pfn: usize) -> usize {
        match self.descriptors[pfn].compound_head {
            HEAD => pfn,
            head => usize::try_from(head).unwrap_or(pfn),
        }
    }

    /// Pages whose pin is not counted, or counted twice; and those that were not accounted.
    pub(super) fn wrong_after(&self, pinned: Pinned) -> u64 {
        let heads = self
            .descriptors
            .iter()
            .filter(|page| page.compound_head == HEAD);
        let expected = u32::try_from(self.folio_pages).unwrap_or(u32::MAX) + UNPINNED;
        let wrong: u64 = heads
            .map(|head| u64::from(head.count.abs_diff(expected)))
            .sum();
        wrong + self.pages().abs_diff(pinned.accounted)
    }

    /// Unpins everything, outside of what is timed.
    pub(super) fn release(&mut self) {
        for page in &mut self.descriptors {
            page.count = UNPINNED;
        }
        black_box(&self.descriptors);
    }
}

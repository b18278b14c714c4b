//! The loops, each as its mechanism has it: `vfio_pin_pages_remote` and the part of `pin_user_pages_remote` that fills a
//! batch from entries that are known.
//!
//! Contiguity is checked against real frame numbers and the pin counts are in the descriptors, so nothing can be
//! skipped: what is not done shows in the counts.

use std::hint::black_box;

use pagetoll_bill::route::Pin;

use super::descriptor::{Memory, Pinned};

/// Page pointers of a batch: those of one page of memory, `VFIO_BATCH_MAX_CAPACITY`.
const CAPACITY: usize = 512;
/// PG_reserved: pages that have it are not accounted.
const RESERVED: u64 = 1;

/// Pins all of the memory.
pub(super) type Loop = fn(&mut Memory) -> Pinned;

/// The loop of a mechanism; `None` where the mechanism is a system call.
pub(super) const fn loop_of(mechanism: Pin) -> Option<Loop> {
    match mechanism {
        Pin::PerPage => Some(|memory| by_batches(memory, one_page)),
        Pin::PerBatch => Some(|memory| by_batches(memory, whole_batch)),
        Pin::PerFolio => Some(|memory| by_batches(memory, rest_of_folio)),
        Pin::Range => Some(by_range),
        Pin::Kernel | Pin::Iommufd => None,
    }
}

/// Fills a batch with the pages from `first`: an entry of a folio adds all of its pages to the head's count at once
/// (`try_grab_folio`), and writes a pointer for each (`record_subpages`).
fn fill(memory: &mut Memory, first: usize, batch: &mut [usize; CAPACITY]) -> usize {
    let end = memory.descriptors.len().min(first + CAPACITY);
    let mut pfn = first;
    while pfn < end {
        let head = memory.head(pfn);
        let folio = &mut memory.descriptors[head];
        let folio_end = (head + (1 << folio.order)).min(end);
        folio.count += u32::try_from(folio_end - pfn).unwrap_or(u32::MAX);
        for (slot, page) in batch[pfn - first..folio_end - first].iter_mut().zip(pfn..) {
            *slot = page;
        }
        pfn = folio_end;
    }
    end - first
}

/// How many pages of the batch a turn takes.
type Known = fn(&Memory, &[usize]) -> usize;

#[inline(always)]
fn by_batches(memory: &mut Memory, known: Known) -> Pinned {
    let mut pinned = Pinned::default();
    let mut batch = [0; CAPACITY];
    let mut next = 0;
    while next < memory.descriptors.len() {
        let size = fill(memory, next, &mut batch);
        let mut offset = 0;
        while offset < size {
            // Run and reserved-ness are checked for the first page of each turn, as the kernel does.
            let page = black_box(batch[offset]);
            if page != next {
                break;
            }
            let pages = known(memory, &batch[offset..size]);
            let reserved = is_reserved(memory, page);
            pinned.accounted += u64::from(!reserved) * u64::try_from(pages).unwrap_or(0);
            pinned.turns += 1;
            offset += pages;
            next += pages;
        }
    }
    pinned
}

/// `is_invalid_reserved_pfn`: both the page's head and, of a tail, the page itself are looked at.
fn is_reserved(memory: &Memory, page: usize) -> bool {
    let head = memory.head(page);
    (memory.descriptors[head].flags | memory.descriptors[page].flags) & RESERVED != 0
}

fn one_page(_: &Memory, _: &[usize]) -> usize {
    1
}

/// As first proposed: what is left of the batch, if the folio is large.
fn whole_batch(memory: &Memory, batch: &[usize]) -> usize {
    let head = memory.head(batch[0]);
    if memory.descriptors[head].order > 0 {
        batch.len()
    } else {
        1
    }
}

/// As reviewed: what is left of the folio in the batch.
fn rest_of_folio(memory: &Memory, batch: &[usize]) -> usize {
    let head = memory.head(batch[0]);
    let end = head + (1 << memory.descriptors[head].order);
    (end - batch[0]).min(batch.len())
}

/// Whole folios, without page pointers.
fn by_range(memory: &mut Memory) -> Pinned {
    let mut pinned = Pinned::default();
    let mut next = 0;
    while next < memory.descriptors.len() {
        let page = black_box(next);
        let head = memory.head(page);
        let reserved = is_reserved(memory, page);
        let folio = &mut memory.descriptors[head];
        let pages = head + (1 << folio.order) - page;
        folio.count += u32::try_from(pages).unwrap_or(u32::MAX);
        pinned.accounted += u64::from(!reserved) * u64::try_from(pages).unwrap_or(0);
        pinned.turns += 1;
        next += pages;
    }
    pinned
}

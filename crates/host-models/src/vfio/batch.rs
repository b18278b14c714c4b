//! Pages that were found by one walk and not yet used: `struct vfio_batch`, filled by `vaddr_get_pfns`.

use super::process::Process;
use super::{Errno, Frames, Mechanism, PAGE, Tolls};

/// Page pointers that fit a batch: `VFIO_BATCH_MAX_CAPACITY`, those of one page of memory.
pub(super) const CAPACITY: u64 = PAGE / 8;

/// Pages that are looked for.
#[derive(Clone, Copy)]
pub(super) struct PageRequest {
    pub(super) vaddr: u64,
    pub(super) pages: u64,
    pub(super) write: bool,
}

/// Frames that were found: each page of its own, except that [`Mechanism::Range`] keeps whole runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    frames: std::collections::VecDeque<(u64, u64)>,
}

impl Batch {
    /// Pages in it.
    pub(super) fn size(&self) -> u64 {
        self.frames.iter().map(|(_, pages)| pages).sum()
    }

    /// Its next frame.
    pub(super) fn pfn(&self) -> Option<u64> {
        self.frames.front().map(|(pfn, _)| *pfn)
    }

    /// Pages of the next run in it, of however many folios: `num_pages_contiguous` (include/linux/mm_inline.h, 6.18).
    pub(super) fn contiguous(&self) -> u64 {
        let Some(first) = self.pfn() else { return 0 };
        let mut pages = 0;
        for (pfn, run) in &self.frames {
            if *pfn != first + pages {
                break;
            }
            pages += run;
        }
        pages
    }

    /// Fills an empty batch from an address. A reserved page is found alone and stays outside: it is the result.
    ///
    /// # Errors
    /// [`Errno::Fault`] when nothing is at the address.
    pub(super) fn fill(
        &mut self,
        wanted: PageRequest,
        mechanism: Mechanism,
        process: &Process,
        frames: &mut Frames,
        tolls: &mut Tolls,
    ) -> Result<Option<u64>, Errno> {
        tolls.batches += 1;
        let first = process.find(wanted.vaddr, wanted.write)?;
        if first.pfnmap {
            return Ok(Some(first.pfn));
        }
        let most = match mechanism {
            Mechanism::Range => wanted.pages,
            _ => wanted.pages.min(CAPACITY),
        };
        let mut taken = 0;
        while taken < most {
            let Ok(found) = process.find(wanted.vaddr + taken * PAGE, wanted.write) else {
                break;
            };
            if found.pfnmap {
                break;
            }
            let pages = found.rest.min(most - taken);
            frames.pin(found.pfn, pages);
            self.push(found.pfn, pages, mechanism);
            *if found.is_large {
                &mut tolls.large_entries
            } else {
                &mut tolls.entries
            } += 1;
            tolls.page_pointers += if mechanism == Mechanism::Range {
                1
            } else {
                pages
            };
            taken += pages;
        }
        Ok(None)
    }

    fn push(&mut self, pfn: u64, pages: u64, mechanism: Mechanism) {
        match mechanism {
            Mechanism::Range => self.frames.push_back((pfn, pages)),
            _ => self.frames.extend((pfn..pfn + pages).map(|pfn| (pfn, 1))),
        }
    }

    /// Drops pages from its beginning.
    pub(super) fn advance(&mut self, mut pages: u64) {
        while pages > 0 {
            let Some((pfn, run)) = self.frames.pop_front() else {
                return;
            };
            if run > pages {
                self.frames.push_front((pfn + pages, run - pages));
                return;
            }
            pages -= run;
        }
    }

    /// Gives everything in it back: `vfio_batch_unpin`.
    pub(super) fn unpin(&mut self, frames: &mut Frames) {
        for (pfn, pages) in self.frames.drain(..) {
            frames.unpin(pfn, pages);
        }
    }
}

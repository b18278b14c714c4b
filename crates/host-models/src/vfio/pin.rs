//! Pinning and accounting: `vfio_pin_pages_remote` and its inverse, by four mechanisms.
//!
//! The mechanisms differ in how many pages one turn of the loop takes. *per-page* is Linux until 6.17. *per-batch* is
//! the change as it was first proposed (May 2025): it takes what is left of the batch for one contiguous large page,
//! which it need not be. *per-folio* is the change as reviewed, in Linux 6.18: the pages of the batch that are
//! contiguous, one by default, and unpinned by folio. *range* goes beyond the batch: whole folios, found by their leaf entry, without page pointers.

use super::batch::{Batch, PageRequest};
use super::process::Process;
use super::{Dma, Errno, Frames, PAGE, Tolls};

/// Number of pages that one turn of the pinning loop takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// One.
    PerPage,
    /// The rest of the batch, if its next page is of a large folio. Wrong where the batch holds several.
    PerBatch,
    /// The contiguous pages of the batch; one folio at a time when unpinned.
    PerFolio,
    /// The rest of the folio.
    Range,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 4] = [Self::PerPage, Self::PerBatch, Self::PerFolio, Self::Range];
}

/// A physically contiguous run that was pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) pfn: u64,
    pub(super) pages: u64,
}

/// State that pinning changes.
pub(super) struct Pinner<'a> {
    pub(super) process: &'a mut Process,
    pub(super) frames: &'a mut Frames,
    pub(super) tolls: &'a mut Tolls,
    pub(super) mechanism: Mechanism,
    pub(super) batch: Batch,
}

/// Progress of a run.
#[derive(Default)]
struct Progress {
    pfn: Option<u64>,
    reserved: bool,
    pinned: u64,
    lock_acct: u64,
}

impl Pinner<'_> {
    /// Pins at most `npage` pages of `dma` from `vaddr`, as far as they are contiguous.
    ///
    /// # Errors
    /// [`Errno::Fault`] without memory, [`Errno::NoMem`] beyond RLIMIT_MEMLOCK; nothing of the run stays pinned.
    pub(super) fn pin_pages_remote(
        &mut self,
        dma: &Dma,
        vaddr: u64,
        npage: u64,
    ) -> Result<Run, Errno> {
        let mut run = Progress::default();
        let result = self.extend(dma, vaddr, npage, &mut run);
        self.tolls.runs += 1;
        match result {
            Ok(()) => {
                self.process.locked_vm += run.lock_acct;
                let pfn = run.pfn.ok_or(Errno::Fault)?;
                Ok(Run {
                    pfn,
                    pages: run.pinned,
                })
            }
            Err(errno) => {
                if let Some(pfn) = run.pfn.filter(|_| !run.reserved) {
                    self.frames.unpin(pfn, run.pinned);
                }
                self.batch.unpin(self.frames);
                Err(errno)
            }
        }
    }

    /// The loop: fills the batch when it is empty, and takes from it while pages are contiguous.
    fn extend(
        &mut self,
        dma: &Dma,
        vaddr: u64,
        npage: u64,
        run: &mut Progress,
    ) -> Result<(), Errno> {
        while run.pinned < npage {
            let at = run.pinned * PAGE;
            if self.batch.size() == 0 {
                let wanted = PageRequest {
                    vaddr: vaddr + at,
                    pages: npage - run.pinned,
                    write: dma.access.write,
                };
                let (frames, tolls) = (&mut *self.frames, &mut *self.tolls);
                match self
                    .batch
                    .fill(wanted, self.mechanism, self.process, frames, tolls)
                {
                    Err(errno) => return Err(errno),
                    Ok(Some(reserved)) => {
                        if !run.take_reserved(reserved) {
                            return Ok(());
                        }
                        continue;
                    }
                    Ok(None) => {}
                }
            }
            let iova = dma.iova + (vaddr - dma.vaddr) + at;
            if !self.take(dma, iova, run)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One turn: takes pages that go on where the run ends; false when they do not.
    fn take(&mut self, dma: &Dma, iova: u64, run: &mut Progress) -> Result<bool, Errno> {
        let Some(pfn) = self.batch.pfn() else {
            return Ok(false);
        };
        let reserved = self.frames.is_reserved(pfn);
        let base = *run.pfn.get_or_insert(pfn);
        if run.pinned == 0 {
            run.reserved = reserved;
        }
        if pfn != base + run.pinned || reserved != run.reserved {
            return Ok(false);
        }
        let pages = self.known_contiguous(dma, iova, pfn);
        let account = if reserved {
            0
        } else {
            pages - dma.pfn_list.pages(iova, pages)
        };
        if account > 0 && !self.process.may_lock(run.lock_acct + account) {
            return Err(Errno::NoMem);
        }
        run.lock_acct += account;
        run.pinned += pages;
        self.batch.advance(pages);
        Ok(true)
    }

    /// Number of pages that the mechanism takes for contiguous.
    fn known_contiguous(&mut self, dma: &Dma, iova: u64, pfn: u64) -> u64 {
        let is_large = self.frames.folio(pfn).is_some_and(|folio| folio.pages > 1);
        let left = self.batch.size();
        let pages = match self.mechanism {
            Mechanism::PerPage => 1,
            Mechanism::PerBatch if is_large && dma.pfn_list.find_range(iova, left).is_none() => {
                left
            }
            Mechanism::PerBatch => 1,
            Mechanism::PerFolio | Mechanism::Range => self.batch.contiguous(),
        };
        let by_folio = matches!(self.mechanism, Mechanism::PerFolio | Mechanism::Range);
        if by_folio || pages > 1 {
            self.tolls.folios_checked += 1;
        } else {
            self.tolls.pages_checked += 1;
        }
        pages
    }
}

impl Progress {
    /// Takes one reserved page, which is neither pinned nor accounted; false when it does not go on where the run ends.
    fn take_reserved(&mut self, pfn: u64) -> bool {
        let base = *self.pfn.get_or_insert(pfn);
        if self.pinned == 0 {
            self.reserved = true;
        }
        let goes_on = self.reserved && pfn == base + self.pinned;
        self.pinned += u64::from(goes_on);
        goes_on
    }
}

/// Unpins a run and gives the pages that are no longer to be accounted: `vfio_unpin_pages_remote`.
pub(super) fn unpin_pages_remote(
    dma: &Dma,
    iova: u64,
    run: Run,
    mechanism: Mechanism,
    frames: &mut Frames,
    tolls: &mut Tolls,
) -> u64 {
    let mut unlocked = 0;
    let mut done = 0;
    while done < run.pages {
        let pfn = run.pfn + done;
        let folio = frames.folio(pfn);
        let pages = match mechanism {
            Mechanism::PerPage | Mechanism::PerBatch => 1,
            Mechanism::PerFolio | Mechanism::Range => {
                folio.map_or(1, |folio| folio.rest(pfn).min(run.pages - done))
            }
        };
        if folio.is_some() {
            frames.unpin(pfn, pages);
            let external = dma.pfn_list.pages(iova + done * PAGE, pages);
            unlocked += pages - external;
            match mechanism {
                Mechanism::PerPage | Mechanism::PerBatch => tolls.pages_unpinned += 1,
                Mechanism::PerFolio | Mechanism::Range => tolls.folios_unpinned += 1,
            }
        }
        done += pages;
    }
    unlocked
}

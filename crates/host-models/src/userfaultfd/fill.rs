//! Bringing pages in: copied, zeroed, or taken from the page cache.

use pagetoll_units::Hva;

use super::register::{validate_range, validate_unaligned_range};
use super::{Range, ThreadId, UffdId};
use crate::Errno;
use crate::mm::{Backing, FileId, Mm, Modes, Page, Pte, PteTarget, Vma};

/// `UFFDIO_COPY_MODE_WP`, `UFFDIO_CONTINUE_MODE_WP`.
const WP: u64 = 1 << 1;

/// Content of the new pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `UFFDIO_COPY`: what is at this address.
    Copy(Hva),
    /// `UFFDIO_ZEROPAGE`.
    Zero,
    /// `UFFDIO_CONTINUE`: what the page cache has.
    PageCache,
}

/// `struct uffdio_copy`, `uffdio_zeropage`, `uffdio_continue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The pages.
    pub range: Range,
    /// Content of the pages.
    pub source: Source,
    /// `UFFDIO_*_MODE_*`.
    pub mode: u64,
}

impl Fill {
    /// `UFFDIO_COPY_MODE_DONTWAKE`, and the same bit of the other calls.
    pub const DONTWAKE: u64 = 1 << 0;
}

/// The result of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillResult {
    /// Return value of the call.
    pub returned: Result<(), Errno>,
    /// The last field, `copy`, `zeropage` or `mapped`: the bytes that are in, or the error with a minus; `None` where
    /// the kernel left it alone.
    pub field: Option<i64>,
    /// Threads that were woken.
    pub woken: Vec<ThreadId>,
}

impl FillResult {
    const fn refused(errno: Errno) -> Self {
        Self {
            returned: Err(errno),
            field: None,
            woken: Vec::new(),
        }
    }
}

impl Mm {
    /// `UFFDIO_COPY`, `UFFDIO_ZEROPAGE` or `UFFDIO_CONTINUE`.
    pub fn uffdio_fill(&mut self, uffd: UffdId, fill: Fill) -> FillResult {
        if let Err(errno) = self.check_fill(uffd, fill) {
            return FillResult::refused(errno);
        }
        let bytes = match self.mfill_atomic(fill) {
            Ok(bytes) => bytes,
            Err(errno) => {
                return FillResult {
                    field: Some(-i64::from(errno.number())),
                    ..FillResult::refused(errno)
                };
            }
        };
        let start = fill.range.start.0;
        FillResult {
            returned: match bytes == fill.range.len {
                true => Ok(()),
                false => Err(Errno::Again),
            },
            field: i64::try_from(bytes).ok(),
            woken: match fill.mode & Fill::DONTWAKE {
                0 => self.wake(uffd, start, start + bytes),
                _ => Vec::new(),
            },
        }
    }

    fn check_fill(&mut self, uffd: UffdId, fill: Fill) -> Result<(), Errno> {
        self.agreed(uffd)?;
        if let Source::Copy(start) = fill.source {
            let len = fill.range.len;
            validate_unaligned_range(Range { start, len })?;
        }
        validate_range(fill.range)?;
        let known = match fill.source {
            Source::Zero => Fill::DONTWAKE,
            Source::Copy(_) | Source::PageCache => Fill::DONTWAKE | WP,
        };
        if fill.mode & !known != 0 {
            return Err(Errno::Inval);
        }
        Ok(())
    }

    /// Page by page until one fails; gives the bytes that are in, if there are any: `mfill_atomic`.
    fn mfill_atomic(&mut self, fill: Fill) -> Result<u64, Errno> {
        let vma = self.destination(fill)?;
        let mut done = 0;
        while done < fill.range.len {
            let at = Hva(fill.range.start.0 + done);
            match self.mfill_atomic_pte(&vma, at, fill, done) {
                Ok(()) => done += vma.page_size(),
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// The one area that holds the whole range; some userfaultfd watches it, not necessarily the one that was called
    /// (`validate_dst_vma`).
    fn destination(&self, fill: Fill) -> Result<Vma, Errno> {
        let Range { start, len } = fill.range;
        let vma = self.vma(start).ok_or(Errno::NoEnt)?;
        if start.0 + len > vma.end.0 || vma.registration.is_none() {
            return Err(Errno::NoEnt);
        }
        if fill.mode & WP != 0 && !vma.watches(Modes::WP) {
            return Err(Errno::Inval);
        }
        match (vma.backing, fill.source) {
            (Backing::Anonymous, Source::PageCache) | (Backing::Hugetlb(..), Source::Zero) => {
                return Err(Errno::Inval);
            }
            _ => {}
        }
        if !start.0.is_multiple_of(vma.page_size()) || !len.is_multiple_of(vma.page_size()) {
            return Err(Errno::Inval);
        }
        Ok(*vma)
    }

    fn mfill_atomic_pte(&mut self, vma: &Vma, at: Hva, fill: Fill, done: u64) -> Result<(), Errno> {
        let page = match fill.source {
            Source::Copy(from) => self.page_at(Hva(from.0 + done))?,
            Source::Zero | Source::PageCache => Page::ZERO,
        };
        let pte = match (vma.file_page(at), fill.source) {
            (None, Source::Zero) => Pte::readable(PteTarget::Zero),
            (None, _) => Pte::new(vma, PteTarget::Private(page)),
            (Some((file, index)), source) => self.cached(vma, file, index, source)?,
        };
        self.check_free(at, pte.mapped)?;
        if let (PteTarget::Shared(file, index), false) =
            (pte.mapped, fill.source == Source::PageCache)
            && let Some(cache) = self.file_mut(file)
        {
            cache.set(index, page);
        }
        let protects = fill.mode & WP != 0;
        self.set_pte(at, if protects { pte.protected() } else { pte });
        Ok(())
    }

    /// The entry for a page of a file, which the page cache must have, or must not: `shmem_add_to_page_cache`,
    /// `shmem_get_folio_noalloc`.
    fn cached(
        &mut self,
        vma: &Vma,
        file: FileId,
        index: u64,
        source: Source,
    ) -> Result<Pte, Errno> {
        let there = self
            .file_mut(file)
            .is_some_and(|cache| cache.page(index).is_some());
        match (source, there) {
            (Source::PageCache, false) => Err(Errno::Fault),
            (Source::Copy(_) | Source::Zero, true) => Err(Errno::Exist),
            _ => Ok(Pte::new(vma, PteTarget::Shared(file, index))),
        }
    }

    /// Refuses where an entry is set already. A marker is overwritten (`mfill_atomic_install_pte`), except by the
    /// kernel's page of zeroes, which anonymous memory gets (`mfill_atomic_pte_zeropage`).
    fn check_free(&self, at: Hva, page: PteTarget) -> Result<(), Errno> {
        match self.pte(at) {
            None => Ok(()),
            Some(pte) if !pte.is_present() && page != PteTarget::Zero => Ok(()),
            Some(_) => Err(Errno::Exist),
        }
    }

    /// Page that the calling thread finds at an address: `copy_from_user`, which faults pages in.
    fn page_at(&mut self, at: Hva) -> Result<Page, Errno> {
        let faulted = self.fault_in(at, crate::mm::Access::Read);
        // A thread that copies from memory that its own userfaultfd watches sleeps for ever; no script does.
        faulted.map_err(|_| Errno::Fault)?;
        self.content(at).ok_or(Errno::Fault)
    }
}

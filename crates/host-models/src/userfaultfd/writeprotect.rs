//! Protecting pages from writes, and taking the protection away.

use pagetoll_units::Hva;

use super::register::validate_range;
use super::{Features, Range, ThreadId, UffdId};
use crate::Errno;
use crate::mm::{Backing, Mm, Modes, Pte, PteTarget, Vma};

/// `UFFDIO_WRITEPROTECT_MODE_WP` and `_DONTWAKE`.
const WP: u64 = 1 << 0;
const DONTWAKE: u64 = 1 << 1;

/// `struct uffdio_writeprotect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protect {
    /// The pages.
    pub range: Range,
    /// `UFFDIO_WRITEPROTECT_MODE_*`.
    pub mode: u64,
}

impl Mm {
    /// `UFFDIO_WRITEPROTECT`: protects, or without `MODE_WP` resolves. Gives who was woken.
    ///
    /// # Errors
    /// `EINVAL` for an invalid range or mode; `ENOENT` for memory that is not registered for it, with what
    /// came before it done.
    pub fn uffdio_writeprotect(
        &mut self,
        uffd: UffdId,
        protect: Protect,
    ) -> Result<Vec<ThreadId>, Errno> {
        let (_, features) = self.agreed(uffd)?;
        let (start, end) = validate_range(protect.range)?;
        let Protect { mode, .. } = protect;
        if mode & !(WP | DONTWAKE) != 0 || mode == WP | DONTWAKE {
            return Err(Errno::Inval);
        }
        let found: Vec<Vma> = self.vmas_in(start, end).copied().collect();
        let mut done = Err(Errno::NoEnt);
        for vma in &found {
            let aligned = |at: u64| at.is_multiple_of(vma.page_size());
            done = match vma.watches(Modes::WP) {
                false => Err(Errno::NoEnt),
                true if !aligned(start) || !aligned(end - start) => Err(Errno::Inval),
                true => Ok(()),
            };
            done?;
            let (from, to) = (vma.start.0.max(start), vma.end.0.min(end));
            match mode & WP {
                0 => self.resolve_write_protection(from, to),
                _ => self.write_protect(vma, from..to, features),
            }
        }
        done?;
        Ok(match mode {
            0 => self.wake(uffd, start, end),
            _ => Vec::new(),
        })
    }

    /// `change_protection` with `MM_CP_UFFD_WP`.
    fn write_protect(&mut self, vma: &Vma, within: std::ops::Range<u64>, features: Features) {
        let marks = !matches!(vma.backing, Backing::Anonymous)
            || features.contains(Features::WP_UNPOPULATED);
        let mut at = within.start;
        while at < within.end {
            let entry = self.pte(Hva(at)).copied();
            let entry = entry.or_else(|| marks.then_some(Pte::readable(PteTarget::Nothing)));
            if let Some(pte) = entry {
                self.set_pte(Hva(at), pte.protected());
            }
            at += vma.page_size();
        }
    }

    /// `change_protection` with `MM_CP_UFFD_WP_RESOLVE`: the next write faults once more, without a message.
    pub(super) fn resolve_write_protection(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            match self.pte(Hva(at)).copied() {
                Some(pte) if !pte.is_present() => self.clear_pte(Hva(at)),
                Some(pte) if pte.uffd_wp => {
                    let uffd_wp = false;
                    self.set_pte(Hva(at), Pte { uffd_wp, ..pte });
                }
                _ => {}
            }
            at += self
                .vma(Hva(at))
                .map_or(crate::mm::PAGE_SIZE, Vma::page_size);
        }
    }
}

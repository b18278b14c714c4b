//! Faults: touches of a page that is not mapped, or not for that access.
//!
//! | here | in Linux 6.18 |
//! |---|---|
//! | [`Mm::fault_in`] | `handle_mm_fault`, `handle_pte_fault` |
//! | `missing` | `do_anonymous_page`; `do_fault`, `shmem_get_folio_gfp`; `hugetlb_no_page` |
//! | `write_protected` | `do_wp_page` |
//! | `handle_userfault` | `handle_userfault` up to its wait |

use pagetoll_units::Hva;

use super::{Access, Mm, Modes, Page, Permission, Pte, PteTarget, Vma};
use crate::userfaultfd::UffdId;

/// Reason why a fault goes to a userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no page (`VM_UFFD_MISSING`).
    Missing,
    /// The page cache has it (`VM_UFFD_MINOR`).
    Minor,
    /// The page is protected from writes (`VM_UFFD_WP`).
    WriteProtect,
}

/// Reason why a page cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// The page cannot be populated: `EFAULT`.
    Fault,
    /// A userfaultfd gets the fault, and has to resolve it.
    Userfault(UffdId, Reason),
}

impl Mm {
    /// Makes the page at an address accessible for this, as far as the kernel can by itself.
    ///
    /// # Errors
    /// [`FaultError`]; nothing has changed then.
    pub fn fault_in(&mut self, at: Hva, access: Access) -> Result<(), FaultError> {
        let vma = *self.vma(at).ok_or(FaultError::Fault)?;
        if access.is_write() && vma.permission != Permission::ReadWrite {
            return Err(FaultError::Fault);
        }
        let entry = self.pte(at).copied();
        match entry {
            Some(pte) if pte.is_present() => {
                if access.is_write() && !pte.writable {
                    self.write_protected(&vma, at, pte)?;
                }
                Ok(())
            }
            other => {
                let pte = self.missing(&vma, at, access)?;
                let pte = match other {
                    // A marker said so: pte_marker_handle_uffd_wp.
                    Some(_) => pte.protected(),
                    None => pte,
                };
                self.set_pte(at, pte);
                // A page that came with protection is written to by a second fault.
                self.fault_in(at, access)
            }
        }
    }

    fn missing(&mut self, vma: &Vma, at: Hva, access: Access) -> Result<Pte, FaultError> {
        let Some((file, index)) = vma.file_page(at) else {
            self.handle_userfault(vma, Reason::Missing)?;
            return Ok(match access.is_write() {
                true => Pte::new(vma, PteTarget::Private(Page::ZERO)),
                false => Pte::readable(PteTarget::Zero),
            });
        };
        let cached = self.files.get(file.0).and_then(|cache| cache.page(index));
        match cached {
            Some(_) => self.handle_userfault(vma, Reason::Minor)?,
            None => {
                self.handle_userfault(vma, Reason::Missing)?;
                if let Some(cache) = self.files.get_mut(file.0) {
                    cache.set(index, Page::ZERO);
                }
            }
        }
        Ok(Pte::new(vma, PteTarget::Shared(file, index)))
    }

    fn write_protected(&mut self, vma: &Vma, at: Hva, mut pte: Pte) -> Result<(), FaultError> {
        if pte.uffd_wp {
            self.handle_userfault(vma, Reason::WriteProtect)?;
        }
        if pte.mapped == PteTarget::Zero {
            pte.mapped = PteTarget::Private(Page::ZERO);
        }
        pte.writable = true;
        self.set_pte(at, pte);
        Ok(())
    }

    /// Fails if the area is registered for faults of this kind.
    fn handle_userfault(&self, vma: &Vma, reason: Reason) -> Result<(), FaultError> {
        let mode = match reason {
            Reason::Missing => Modes::MISSING,
            Reason::Minor => Modes::MINOR,
            Reason::WriteProtect => Modes::WP,
        };
        match vma.registration {
            Some(own) if own.modes.contains(mode) => Err(match self.waits_on(own.uffd) {
                true => FaultError::Userfault(own.uffd, reason),
                false => FaultError::Fault,
            }),
            _ => Ok(()),
        }
    }
}

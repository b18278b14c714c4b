//! Memory that a userfaultfd watches.

use super::{Features, Range, ThreadId, UffdId};
use crate::Errno;
use crate::mm::{Backing, Mm, Modes, PAGE_SIZE, Permission, Registration, TASK_SIZE, Vma};

bitflags::bitflags! {
    /// The calls that will work on a range, as `UFFDIO_REGISTER` reports them: a bit for each, by its number.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Ioctls: u64 {
        /// `_UFFDIO_WAKE`.
        const WAKE = 1 << 2;
        /// `_UFFDIO_COPY`.
        const COPY = 1 << 3;
        /// `_UFFDIO_ZEROPAGE`.
        const ZEROPAGE = 1 << 4;
        /// `_UFFDIO_WRITEPROTECT`.
        const WRITEPROTECT = 1 << 6;
        /// `_UFFDIO_CONTINUE`.
        const CONTINUE = 1 << 7;
    }
}

/// `validate_range`, with what `validate_unaligned_range` leaves to it.
pub(super) fn validate_range(range: Range) -> Result<(u64, u64), Errno> {
    if !range.start.0.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::Inval);
    }
    validate_unaligned_range(range)
}

/// The range's first byte and the one after it.
pub(super) fn validate_unaligned_range(range: Range) -> Result<(u64, u64), Errno> {
    let Range { start, len } = range;
    let whole = len != 0 && len.is_multiple_of(PAGE_SIZE);
    if !whole || start.0 >= TASK_SIZE || len > TASK_SIZE - start.0 {
        return Err(Errno::Inval);
    }
    Ok((start.0, start.0 + len))
}

impl Mm {
    /// `UFFDIO_REGISTER`: from now on these faults of the range go to the userfaultfd. Returns the calls that work
    /// on it.
    ///
    /// # Errors
    /// `EINVAL` for invalid modes or ranges, for no memory at all, or for memory that cannot be watched so;
    /// `EPERM` for memory that can never be written; `EBUSY` for memory that another userfaultfd watches.
    pub fn uffdio_register(
        &mut self,
        uffd: UffdId,
        range: Range,
        modes: Modes,
    ) -> Result<Ioctls, Errno> {
        let (_, features) = self.agreed(uffd)?;
        if modes.is_empty() || !Modes::all().contains(modes) {
            return Err(Errno::Inval);
        }
        let (start, end) = validate_range(range)?;
        let mut found = Vec::new();
        for vma in self.vmas_in(start, end) {
            let aligned = |at: u64| at.is_multiple_of(vma.page_size());
            if found.is_empty() && !aligned(start) {
                return Err(Errno::Inval);
            }
            if !can_userfault(vma, modes, features) {
                return Err(Errno::Inval);
            }
            if vma.permission == Permission::ReadForGood {
                return Err(Errno::Perm);
            }
            if end <= vma.end.0 && !aligned(end) {
                return Err(Errno::Inval);
            }
            if vma.registration.is_some_and(|by| by.uffd != uffd) {
                return Err(Errno::Busy);
            }
            found.push(*vma);
        }
        if found.is_empty() {
            return Err(Errno::Inval);
        }
        for vma in &found {
            let (from, to) = (vma.start.0.max(start), vma.end.0.min(end));
            if !(vma.registration.is_some() && vma.watches(modes)) {
                self.set_registration(from, to, Some(Registration { uffd, modes }));
            }
        }
        Ok(ioctls(&found, modes))
    }

    /// `UFFDIO_UNREGISTER`: the range is an ordinary one again. Wakes those who wait for missing pages of it.
    ///
    /// # Errors
    /// `EINVAL` for a range that is invalid, has no memory, or is watched by another userfaultfd.
    pub fn uffdio_unregister(
        &mut self,
        uffd: UffdId,
        range: Range,
    ) -> Result<Vec<ThreadId>, Errno> {
        self.agreed(uffd)?;
        let (start, end) = validate_range(range)?;
        let found: Vec<Vma> = self.vmas_in(start, end).copied().collect();
        let first = found.first().ok_or(Errno::Inval)?;
        let foreign = |vma: &Vma| vma.registration.is_some_and(|by| by.uffd != uffd);
        if !start.is_multiple_of(first.page_size()) || found.iter().any(foreign) {
            return Err(Errno::Inval);
        }
        let mut woken = Vec::new();
        for vma in found.iter().filter(|vma| vma.registration.is_some()) {
            let (from, to) = (vma.start.0.max(start), vma.end.0.min(end));
            // Those who wait for minor faults or write protection alone are not woken.
            if vma.watches(Modes::MISSING) {
                woken.extend(self.wake(uffd, from, to));
            }
            self.clear_registration(from, to);
        }
        Ok(woken)
    }

    /// `UFFDIO_WAKE`.
    ///
    /// # Errors
    /// `EINVAL` for an invalid range.
    pub fn uffdio_wake(&mut self, uffd: UffdId, range: Range) -> Result<Vec<ThreadId>, Errno> {
        self.agreed(uffd)?;
        let (start, end) = validate_range(range)?;
        Ok(self.wake(uffd, start, end))
    }

    pub(super) fn wake(&mut self, uffd: UffdId, start: u64, end: u64) -> Vec<ThreadId> {
        let found = self.open_userfaultfd(uffd);
        let start = pagetoll_units::Hva(start);
        found.map_or_else(
            |_| Vec::new(),
            |found| found.queues.wake(start, end - start.0),
        )
    }

    /// `userfaultfd_clear_vma`: drops registration and write protection.
    pub(super) fn clear_registration(&mut self, start: u64, end: u64) {
        self.resolve_write_protection(start, end);
        self.set_registration(start, end, None);
    }
}

/// `vma_can_userfault`: protection alone that resolves itself goes with any memory.
fn can_userfault(vma: &Vma, modes: Modes, features: Features) -> bool {
    let resolves_itself = features.contains(Features::WP_ASYNC) && modes == Modes::WP;
    resolves_itself || vma.can_userfault(modes)
}

/// `UFFD_API_RANGE_IOCTLS`, `UFFD_API_RANGE_IOCTLS_BASIC`, and what the modes take away.
fn ioctls(vmas: &[Vma], modes: Modes) -> Ioctls {
    let mut bits = Ioctls::WAKE | Ioctls::COPY;
    if !vmas
        .iter()
        .any(|vma| matches!(vma.backing, Backing::Hugetlb(..)))
    {
        bits |= Ioctls::ZEROPAGE;
    }
    if modes.contains(Modes::WP) {
        bits |= Ioctls::WRITEPROTECT;
    }
    if modes.contains(Modes::MINOR) {
        bits |= Ioctls::CONTINUE;
    }
    bits
}

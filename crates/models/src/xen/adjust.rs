//! Flags that Xen adds to the entries that a guest asks for. Source: xen/arch/x86/pv/mm.h, `adjust_guest_l1e` to
//! `adjust_guest_l4e`, 4.17; above L1 for 64-bit guests.

use super::machine::Width;
use crate::x86::{Flags, Level, PageTableEntry};

/// Flags that a guest may change in an L1 entry without validation (mm.c, `FASTPATH_FLAG_WHITELIST`); an upper entry
/// has the same list while guests may have linear page tables.
const FAST: Flags = Flags::NO_EXECUTE
    .union(Flags::AVAILABLE_HIGH)
    .union(Flags::AVAILABLE)
    .union(Flags::GLOBAL)
    .union(Flags::DIRTY)
    .union(Flags::ACCESSED)
    .union(Flags::USER);
/// PAT, PCD and PWT.
pub(super) const CACHE_ATTRIBUTES: Flags = Flags::PAT
    .union(Flags::CACHE_DISABLE)
    .union(Flags::WRITE_THROUGH);
/// Flags that no upper entry may have (mm.c, `base_disallow_mask`).
pub(super) const UPPER_DISALLOWED: Flags = CACHE_ATTRIBUTES.union(Flags::GLOBAL);

/// The entry as Xen stores it. One that is not present is stored as it is.
pub(super) fn adjust(entry: PageTableEntry, level: Level, width: Width) -> PageTableEntry {
    if !entry.is_present() {
        return entry;
    }
    match level {
        Level::L1 if width == Width::Pae32 => entry,
        Level::L1 => adjust_l1(entry),
        Level::L2 | Level::L3 => entry.with(Flags::USER),
        Level::L4 => entry.with(Flags::USER | Flags::ACCESSED),
    }
}

/// Guest kernels run in user mode too, so their pages get U, and a mark instead; what is not so marked becomes global.
fn adjust_l1(entry: PageTableEntry) -> PageTableEntry {
    let marked = if entry.has(Flags::USER) {
        entry
    } else {
        entry.with(Flags::GUEST_KERNEL | Flags::USER)
    };
    if marked.has(Flags::GUEST_KERNEL) {
        marked
    } else {
        marked.with(Flags::GLOBAL | Flags::USER)
    }
}

/// Returns whether two entries differ in nothing but bits that need no validation.
pub(super) fn is_similar(old: PageTableEntry, new: PageTableEntry) -> bool {
    !old.differs(new, !FAST)
}

#[cfg(test)]
mod tests {
    use pagetoll_units::Mfn;

    use super::*;

    fn adjusted(flags: Flags, level: Level) -> Flags {
        adjust(PageTableEntry::new(Mfn(1), flags), level, Width::Bits64).flags()
    }

    #[test]
    fn kernel_pages_are_marked_and_user_pages_become_global() {
        let kernel = Flags::PRESENT | Flags::USER | Flags::GUEST_KERNEL;
        assert_eq!(adjusted(Flags::PRESENT, Level::L1), kernel);
        let user = Flags::PRESENT | Flags::USER;
        assert_eq!(adjusted(user, Level::L1), user | Flags::GLOBAL);
    }

    #[test]
    fn upper_entries_get_u_and_roots_a() {
        let user = Flags::PRESENT | Flags::USER;
        assert_eq!(adjusted(Flags::PRESENT, Level::L3), user);
        assert_eq!(adjusted(Flags::PRESENT, Level::L4), user | Flags::ACCESSED);
        assert_eq!(adjusted(Flags::DIRTY, Level::L4), Flags::DIRTY);
    }

    #[test]
    fn rights_and_cache_attributes_need_validation() {
        let old = PageTableEntry::new(Mfn(1), Flags::PRESENT);
        assert!(is_similar(old, old.with(Flags::DIRTY | Flags::NO_EXECUTE)));
        assert!(!is_similar(old, old.with(Flags::WRITABLE)));
        assert!(!is_similar(old, old.with(Flags::PAT)));
        assert!(!is_similar(old, PageTableEntry::EMPTY));
    }
}

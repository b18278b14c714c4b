//! One entry of a page table, with its real bits. Source: Intel SDM volume 3A, tables 4-15 to 4-20.

use std::fmt;

use pagetoll_units::Mfn;

/// Bits 51 to 12: where the next table or the page lies.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

bitflags::bitflags! {
    /// The bits of an entry that are not its address.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u64 {
        /// P: the entry is used at all.
        const PRESENT = 1;
        /// R/W: writes are allowed.
        const WRITABLE = 1 << 1;
        /// U/S: user mode may use it.
        const USER = 1 << 2;
        /// PWT: one of the three bits that choose the memory type.
        const WRITE_THROUGH = 1 << 3;
        /// PCD: the second of them.
        const CACHE_DISABLE = 1 << 4;
        /// A: a walk went through it.
        const ACCESSED = 1 << 5;
        /// D: a write went through it.
        const DIRTY = 1 << 6;
        /// PAT in the lowest level, the third bit of the memory type.
        const PAT = 1 << 7;
        /// PS above the lowest level: the entry maps a large page.
        const PAGE_SIZE = 1 << 7;
        /// G: survives a change of CR3.
        const GLOBAL = 1 << 8;
        /// Bits 9 to 11, for software.
        const AVAILABLE = 0x7 << 9;
        /// Bits 52 to 62, for software.
        const AVAILABLE_HIGH = 0x7ff << 52;
        /// Bit 52, by which Xen distinguishes a PV kernel's pages from its user's
        /// (xen/arch/x86/include/asm/x86_64/page.h, `_PAGE_GUEST_KERNEL`).
        const GUEST_KERNEL = 1 << 52;
        /// NX: no instructions are fetched.
        const NO_EXECUTE = 1 << 63;
    }
}

/// An entry, as it lies in memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PageTableEntry(pub u64);

impl PageTableEntry {
    /// The entry that holds nothing.
    pub const EMPTY: Self = Self(0);

    /// An entry for a frame.
    #[must_use]
    pub const fn new(mfn: Mfn, flags: Flags) -> Self {
        Self(mfn.0 << 12 & ADDRESS | flags.bits())
    }

    /// The frame that it refers to; means nothing unless it is present.
    #[must_use]
    pub const fn mfn(self) -> Mfn {
        Mfn((self.0 & ADDRESS) >> 12)
    }

    /// Bits of the entry, the address apart.
    #[must_use]
    pub const fn flags(self) -> Flags {
        Flags::from_bits_retain(self.0 & !ADDRESS)
    }

    /// Returns whether P is set.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.flags().contains(Flags::PRESENT)
    }

    /// Returns whether all of these flags are set.
    #[must_use]
    pub const fn has(self, flags: Flags) -> bool {
        self.flags().contains(flags)
    }

    /// The entry with these flags set.
    #[must_use]
    pub const fn with(self, flags: Flags) -> Self {
        Self(self.0 | flags.bits())
    }

    /// The entry with these flags clear.
    #[must_use]
    pub const fn without(self, flags: Flags) -> Self {
        Self(self.0 & !flags.bits())
    }

    /// The entry with these flags turned over.
    #[must_use]
    pub const fn flipped(self, flags: Flags) -> Self {
        Self(self.0 ^ flags.bits())
    }

    /// Returns whether the address or one of these flags differs from another entry's.
    #[must_use]
    pub const fn differs(self, other: Self, flags: Flags) -> bool {
        (self.0 ^ other.0) & (ADDRESS | flags.bits()) != 0
    }
}

impl fmt::Debug for PageTableEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageTableEntry({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_an_address_and_flags() {
        let flags = Flags::PRESENT | Flags::NO_EXECUTE | Flags::GUEST_KERNEL;
        let entry = PageTableEntry::new(Mfn(0xab_cdef), flags);
        assert_eq!(entry.0, 0x8010_000a_bcde_f001);
        assert_eq!((entry.mfn(), entry.flags()), (Mfn(0xab_cdef), flags));
    }

    #[test]
    fn differences_are_seen_where_they_are_asked_for() {
        let old = PageTableEntry::new(Mfn(1), Flags::PRESENT);
        let dirty = old.with(Flags::DIRTY);
        assert!(!old.differs(dirty, Flags::PRESENT));
        assert!(old.differs(dirty, Flags::DIRTY));
        assert!(old.differs(PageTableEntry::new(Mfn(2), Flags::PRESENT), Flags::empty()));
    }
}

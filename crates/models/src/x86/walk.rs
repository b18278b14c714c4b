//! The page walk: from a virtual address through four tables to a frame, setting A and D on the way.
//!
//! Each bit is set by one atomic step of its own, and only in an entry that still is what the walk saw; when it is not,
//! the walk begins again. That is all that software may rely on (Intel SDM volume 3A, 4.8).

use pagetoll_units::{MachineAddress, Mfn, VirtualAddress};

use super::entry::{Flags, PageTableEntry};
use super::memory::Memory;

/// A level of the tables, from the root down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Maps pages of 4 KiB.
    L1 = 1,
    /// Refers to L1 tables or maps 2 MiB.
    L2 = 2,
    /// Refers to L2 tables or maps 1 GiB.
    L3 = 3,
    /// The root.
    L4 = 4,
}

impl Level {
    /// Levels from the root down.
    pub const DOWNWARDS: [Self; 4] = [Self::L4, Self::L3, Self::L2, Self::L1];

    /// The level below, or `None` below L1.
    #[must_use]
    pub const fn below(self) -> Option<Self> {
        match self {
            Self::L1 => None,
            Self::L2 => Some(Self::L1),
            Self::L3 => Some(Self::L2),
            Self::L4 => Some(Self::L3),
        }
    }

    /// Bits of a virtual address below this level's index.
    const fn shift(self) -> u32 {
        12 + 9 * (self as u32 - 1)
    }
}

/// Kind of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load.
    Read,
    /// A store, or a load and a store in one.
    Write,
}

/// Mode of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// Rings 0 to 2: U/S does not matter, R/W does (CR0.WP is set).
    Supervisor,
    /// Ring 3, where a 64-bit PV guest's kernel runs too.
    User,
}

/// An access, and the mode that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Kind of the access.
    pub access: Access,
    /// Mode of the access.
    pub privilege: Privilege,
}

impl Request {
    /// An access by user space, which is where a 64-bit PV guest's kernel runs too.
    #[must_use]
    pub const fn by_user(access: Access) -> Self {
        Self {
            access,
            privilege: Privilege::User,
        }
    }
}

/// Reason why there is no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageFault {
    /// The address is not the sign extension of its 48 bits.
    NonCanonical,
    /// An entry is not present.
    NotPresent(Level),
    /// The entries are there and forbid it.
    Protection,
}

/// Translation of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Translation {
    /// The frame of the 4 KiB that hold the address, large pages included.
    pub mfn: Mfn,
    /// Rights that all levels together give, and the leaf's own D and G.
    pub flags: Flags,
}

/// A walk that has read its entries and not yet set a bit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    steps: Vec<(MachineAddress, PageTableEntry)>,
    translation: Translation,
    access: Access,
}

/// The slot of a table of this level that an address selects.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "nine bits are left")]
pub const fn slot(address: VirtualAddress, level: Level) -> usize {
    (address.0 >> level.shift()) as usize & 0x1ff
}

const fn is_canonical(address: VirtualAddress) -> bool {
    let high = address.0 >> 47;
    high == 0 || high == 0x1_ffff
}

impl Walk {
    /// Reads the entries of an address, from the root, and judges the access.
    ///
    /// # Errors
    /// The fault that the CPU would raise.
    pub fn load(
        memory: &Memory,
        root: Mfn,
        address: VirtualAddress,
        request: Request,
    ) -> Result<Self, PageFault> {
        if !is_canonical(address) {
            return Err(PageFault::NonCanonical);
        }
        let mut steps = Vec::with_capacity(4);
        let mut table = root;
        let mut allowed = Flags::WRITABLE | Flags::USER;
        let mut forbidden = Flags::empty();
        for level in Level::DOWNWARDS {
            let place = table.address(slot(address, level) as u64 * 8);
            let entry = PageTableEntry(memory.read(place));
            if !entry.is_present() {
                return Err(PageFault::NotPresent(level));
            }
            steps.push((place, entry));
            allowed &= entry.flags();
            forbidden |= entry.flags() & Flags::NO_EXECUTE;
            if level == Level::L1 || is_large(entry, level) {
                let own = entry.flags() & (Flags::DIRTY | Flags::GLOBAL);
                let translation = Translation {
                    mfn: frame_in(entry, address, level),
                    flags: allowed | forbidden | own,
                };
                check(translation.flags, request)?;
                let access = request.access;
                return Ok(Self {
                    steps,
                    translation,
                    access,
                });
            }
            table = entry.mfn();
        }
        Err(PageFault::NotPresent(Level::L1))
    }

    /// Sets A in every entry, and D in the last one for a write. `None`: an entry is no longer what it was, and the
    /// walk has to begin again.
    pub fn commit(self, memory: &mut Memory) -> Option<Translation> {
        let last = self.steps.len() - 1;
        let mut translation = self.translation;
        for (index, (place, entry)) in self.steps.into_iter().enumerate() {
            let mut wanted = entry.with(Flags::ACCESSED);
            if index == last && self.access == Access::Write {
                wanted = wanted.with(Flags::DIRTY);
                translation.flags |= Flags::DIRTY;
            }
            if memory.compare_exchange(place, entry.0, wanted.0) != entry.0 {
                return None;
            }
        }
        Some(translation)
    }
}

const fn is_large(entry: PageTableEntry, level: Level) -> bool {
    matches!(level, Level::L2 | Level::L3) && entry.has(Flags::PAGE_SIZE)
}

fn frame_in(entry: PageTableEntry, address: VirtualAddress, level: Level) -> Mfn {
    let within = (1 << (level.shift() - 12)) - 1;
    Mfn(entry.mfn().0 & !within | address.page() & within)
}

/// Checks a request against rights.
///
/// # Errors
/// [`PageFault::Protection`].
pub(super) fn check(rights: Flags, request: Request) -> Result<(), PageFault> {
    let writes = request.access == Access::Write && !rights.contains(Flags::WRITABLE);
    let intrudes = request.privilege == Privilege::User && !rights.contains(Flags::USER);
    if writes || intrudes {
        return Err(PageFault::Protection);
    }
    Ok(())
}

/// A whole walk: reads, judges, sets A and D.
///
/// # Errors
/// The fault that the CPU would raise; no bit is set then.
pub fn walk(
    memory: &mut Memory,
    root: Mfn,
    address: VirtualAddress,
    request: Request,
) -> Result<Translation, PageFault> {
    loop {
        if let Some(translation) = Walk::load(memory, root, address, request)?.commit(memory) {
            return Ok(translation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Flags = Flags::PRESENT.union(Flags::WRITABLE).union(Flags::USER);
    const WRITE: Request = Request::by_user(Access::Write);
    const READ: Request = Request::by_user(Access::Read);
    const HERE: VirtualAddress = VirtualAddress(0x40_3000);

    fn tables(leaf: PageTableEntry) -> Memory {
        let mut memory = Memory::default();
        for (level, table) in Level::DOWNWARDS.into_iter().zip(1..) {
            let entry = match level {
                Level::L1 => leaf,
                _ => PageTableEntry::new(Mfn(table + 1), TABLE),
            };
            memory.set_entry(Mfn(table), slot(HERE, level), entry);
        }
        memory
    }

    #[test]
    fn a_read_sets_a_and_a_write_sets_d_too() {
        let mut memory = tables(PageTableEntry::new(Mfn(9), TABLE));
        assert_eq!(walk(&mut memory, Mfn(1), HERE, READ).unwrap().mfn, Mfn(9));
        let leaf = |memory: &Memory| memory.entry(Mfn(4), slot(HERE, Level::L1)).flags();
        assert_eq!(leaf(&memory), TABLE | Flags::ACCESSED);
        walk(&mut memory, Mfn(1), HERE, WRITE).unwrap();
        assert_eq!(leaf(&memory), TABLE | Flags::ACCESSED | Flags::DIRTY);
        let root = memory.entry(Mfn(1), 0).flags();
        assert_eq!(root, TABLE | Flags::ACCESSED);
    }

    #[test]
    fn what_is_forbidden_faults_and_sets_nothing() {
        let read_only = PageTableEntry::new(Mfn(9), Flags::PRESENT | Flags::USER);
        let mut memory = tables(read_only);
        let before = memory.clone();
        assert_eq!(
            walk(&mut memory, Mfn(1), HERE, WRITE),
            Err(PageFault::Protection)
        );
        assert_eq!(memory, before);
        let absent = walk(&mut memory, Mfn(1), VirtualAddress(0), READ);
        assert_eq!(absent, Err(PageFault::NotPresent(Level::L2)));
        let odd = walk(&mut memory, Mfn(1), VirtualAddress(1 << 47), READ);
        assert_eq!(odd, Err(PageFault::NonCanonical));
    }

    #[test]
    fn an_entry_that_changed_meanwhile_is_not_marked() {
        let mut memory = tables(PageTableEntry::new(Mfn(9), TABLE));
        let begun = Walk::load(&memory, Mfn(1), HERE, WRITE).unwrap();
        memory.set_entry(Mfn(4), slot(HERE, Level::L1), PageTableEntry::EMPTY);
        assert_eq!(begun.commit(&mut memory), None);
        assert_eq!(
            memory.entry(Mfn(4), slot(HERE, Level::L1)),
            PageTableEntry::EMPTY
        );
    }

    #[test]
    fn a_large_page_holds_many_frames() {
        let mut memory = tables(PageTableEntry::EMPTY);
        let large = PageTableEntry::new(Mfn(0x200), TABLE.union(Flags::PAGE_SIZE));
        memory.set_entry(Mfn(3), slot(HERE, Level::L2), large);
        assert_eq!(
            walk(&mut memory, Mfn(1), HERE, READ).unwrap().mfn,
            Mfn(0x203)
        );
    }
}

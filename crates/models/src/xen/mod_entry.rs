//! One entry replaced by another. Source: xen/arch/x86/mm.c, `mod_l1_entry` to `mod_l4_entry`, and
//! xen/arch/x86/pv/mm.h, `update_intpte`, 4.17.

use pagetoll_units::{MachineAddress, Mfn};

use super::adjust::{UPPER_DISALLOWED, adjust, is_similar};
use super::domain::DomainId;
use super::errno::Errno;
use super::machine::Xen;
use super::page_type::is_guest_slot;
use crate::x86::{Flags, Level, Memory, PageTableEntry};

/// Treatment of A and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessedDirty {
    /// The guest's values replace them.
    Replace,
    /// Bits that are set stay set.
    Preserve,
}

/// Meaning of the frame number in an L1 entry for another domain's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// The domain's own number, if it is translated.
    Guest,
    /// The machine's.
    Machine,
}

/// A replacement that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    /// Place of the entry.
    pub(super) place: MachineAddress,
    /// Entry that the guest wants there.
    pub(super) wanted: PageTableEntry,
    pub(super) accessed_dirty: AccessedDirty,
    pub(super) translation: Translation,
    /// Domain of the table.
    pub(super) table_owner: DomainId,
    /// Domain that is asked for the frame.
    pub(super) page_owner: DomainId,
}

/// Stores a new entry over the one that was read: a plain store, or for [`AccessedDirty::Preserve`] a compare and
/// exchange that is repeated until no walk came between.
pub(super) fn update_entry(
    memory: &mut Memory,
    place: MachineAddress,
    read: PageTableEntry,
    new: PageTableEntry,
    accessed_dirty: AccessedDirty,
) {
    if accessed_dirty == AccessedDirty::Replace {
        memory.write(place, new.0);
        return;
    }
    let mut old = read;
    while let Err(found) = exchange_preserving(memory, place, old, new) {
        old = found;
    }
}

/// One attempt to store a new entry with the old one's A and D, as one step.
///
/// # Errors
/// What is there instead of the old entry.
pub fn exchange_preserving(
    memory: &mut Memory,
    place: MachineAddress,
    old: PageTableEntry,
    new: PageTableEntry,
) -> Result<(), PageTableEntry> {
    let kept = new.with(old.flags() & (Flags::ACCESSED | Flags::DIRTY));
    match PageTableEntry(memory.compare_exchange(place, old.0, kept.0)) {
        found if found == old => Ok(()),
        found => Err(found),
    }
}

/// Exchanges an entry, as one step; returns the old one.
pub fn swapped(memory: &mut Memory, place: MachineAddress, new: PageTableEntry) -> PageTableEntry {
    PageTableEntry(memory.exchange(place, new.0))
}

impl Xen {
    /// Replaces an entry of a table of any level.
    ///
    /// # Errors
    /// Why the guest may not have that entry; it is as it was then.
    pub(super) fn mod_entry(&mut self, level: Level, asked: Replacement) -> Result<(), Errno> {
        let place = asked.place;
        if !is_guest_slot(level, slot_at(place)) {
            return Err(Errno::Einval);
        }
        let old = PageTableEntry(self.memory.read(place));
        let mut new = asked.wanted;
        if new.is_present() {
            if level != Level::L1 && new.flags().intersects(UPPER_DISALLOWED) {
                return Err(Errno::Einval);
            }
            new = adjust(self.translated(new, level, asked)?, level, self.width);
            if is_similar(old, new) {
                self.tolls.entries_fast += 1;
                update_entry(&mut self.memory, place, old, new, asked.accessed_dirty);
                return Ok(());
            }
            new = self.take_for(new, level, asked)?;
        }
        self.tolls.entries_revalidated += 1;
        update_entry(&mut self.memory, place, old, new, asked.accessed_dirty);
        self.put_page_from_entry(old, place.mfn(), level);
        Ok(())
    }

    /// Exchanges an L1 entry for another, and returns the old one.
    ///
    /// # Errors
    /// Why the guest may not have the new entry; the old one is as it was then.
    pub(super) fn exchange_entry(&mut self, asked: Replacement) -> Result<PageTableEntry, Errno> {
        let mut new = asked.wanted;
        if new.is_present() {
            new = self.translated(new, Level::L1, asked)?;
            new = self.take_for(adjust(new, Level::L1, self.width), Level::L1, asked)?;
        }
        self.tolls.entries_revalidated += 1;
        let old = swapped(&mut self.memory, asked.place, new);
        self.put_page_from_l1e(old);
        Ok(old)
    }

    /// The entry with the machine's frame number in it.
    fn translated(
        &mut self,
        entry: PageTableEntry,
        level: Level,
        asked: Replacement,
    ) -> Result<PageTableEntry, Errno> {
        if level != Level::L1
            || asked.page_owner == asked.table_owner
            || asked.translation == Translation::Machine
        {
            return Ok(entry);
        }
        let Some(frames) = self.p2m(asked.page_owner) else {
            return Ok(entry);
        };
        let mfn = Mfn(frames.start.0.saturating_add(entry.mfn().0));
        let found = frames.contains(&mfn);
        self.tolls.p2m_lookups += 1;
        if found {
            Ok(PageTableEntry::new(mfn, entry.flags()))
        } else {
            Err(Errno::Einval)
        }
    }

    fn take_for(
        &mut self,
        new: PageTableEntry,
        level: Level,
        asked: Replacement,
    ) -> Result<PageTableEntry, Errno> {
        if level == Level::L1 {
            return self.get_page_from_l1e(new, asked.table_owner, asked.page_owner);
        }
        self.get_page_from_entry(new, asked.place.mfn(), level, asked.table_owner)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "an offset is below 4096")]
const fn slot_at(place: MachineAddress) -> usize {
    (place.offset() / 8) as usize
}

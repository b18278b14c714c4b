//! A frame's use: taken, checked, given back. Source: xen/arch/x86/mm.c, `_get_page_type`, `_put_page_type`,
//! `promote_l1_table` to `promote_l4_table`, `demote_l1_table` to `demote_l4_table`, 4.17.
//!
//! The one rule that protects Xen: a frame has one use at a time, so what a guest can write is never a page table.

use std::ops::RangeInclusive;

use pagetoll_units::{MachineAddress, Mfn};

use super::adjust::adjust;
use super::domain::DomainId;
use super::errno::Errno;
use super::frame::{Frame, PageType};
use super::machine::Xen;
use crate::x86::{ENTRIES, Level, PageTableEntry};

/// Slots of an L4 table that are Xen's (xen/arch/x86/include/asm/config.h, `ROOT_PAGETABLE_FIRST_XEN_SLOT`).
pub(super) const XEN_SLOTS: RangeInclusive<usize> = 256..=271;

/// Returns whether a slot is the guest's to fill (`is_guest_l4_slot`).
pub(super) fn is_guest_slot(level: Level, slot: usize) -> bool {
    level != Level::L4 || !XEN_SLOTS.contains(&slot)
}

/// Result of taking a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeUse {
    /// Another use excludes it.
    Refused,
    /// The frame was checked for that use before.
    Valid,
    /// The frame was used as that before, and has to be checked again.
    Again,
    /// The frame was not used as that before.
    Anew,
}

impl Frame {
    /// Takes a use, and returns the owner of the frame.
    fn take_type(&mut self, wanted: PageType) -> (Option<DomainId>, TypeUse) {
        let taken = match (self.page_type == wanted, self.validated) {
            (true, true) => TypeUse::Valid,
            _ if self.type_count > 0 => return (self.owner, TypeUse::Refused),
            (true, false) => TypeUse::Again,
            (false, _) => TypeUse::Anew,
        };
        self.page_type = wanted;
        self.type_count += 1;
        self.validated = taken == TypeUse::Valid || wanted == PageType::Writable;
        (self.owner, taken)
    }
}

impl Xen {
    /// Takes a use of a frame; the first use of a table checks its entries. The caller holds a reference.
    ///
    /// # Errors
    /// `EINVAL` when it is used otherwise; what the check of an entry says.
    pub(super) fn get_page_type(&mut self, mfn: Mfn, wanted: PageType) -> Result<(), Errno> {
        let taken = self.frames.update(mfn, |frame| frame.take_type(wanted));
        let (owner, taken) = taken.ok_or(Errno::Einval)?;
        if taken == TypeUse::Anew {
            self.flush_for_type_change(owner);
        }
        match (taken, wanted) {
            (TypeUse::Refused, _) => Err(Errno::Einval),
            (TypeUse::Valid, _) | (_, PageType::Writable | PageType::None) => Ok(()),
            (TypeUse::Anew | TypeUse::Again, _) => self.validate(mfn, wanted),
        }
    }

    fn validate(&mut self, mfn: Mfn, wanted: PageType) -> Result<(), Errno> {
        let owner = self.frames.update(mfn, |frame| {
            frame.linear = 0;
            frame.owner
        });
        let owner = owner.flatten().ok_or(Errno::Einval)?;
        self.tolls.promotions += 1;
        let checked = match wanted {
            PageType::Table(level) => self.promote(mfn, level, owner),
            _ => self.validate_descriptors(mfn),
        };
        let _ = self.frames.update(mfn, |frame| match checked {
            Ok(()) => frame.validated = true,
            Err(_) => {
                frame.page_type = PageType::None;
                frame.type_count = 0;
            }
        });
        checked
    }

    /// Takes what every present entry refers to. Entries are adjusted as it goes, and stay so when it fails.
    fn promote(&mut self, table: Mfn, level: Level, owner: DomainId) -> Result<(), Errno> {
        for slot in (0..ENTRIES).filter(|&slot| is_guest_slot(level, slot)) {
            let entry = self.memory.entry(table, slot);
            if !entry.is_present() {
                continue;
            }
            match self.get_page_from_entry(entry, table, level, owner) {
                Ok(taken) => {
                    let adjusted = adjust(taken, level, self.width);
                    self.memory.set_entry(table, slot, adjusted);
                }
                Err(errno) => {
                    self.release(table, level, slot);
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// Gives back what the entries below `end` refer to.
    fn release(&mut self, table: Mfn, level: Level, end: usize) {
        for slot in (0..end).filter(|&slot| is_guest_slot(level, slot)).rev() {
            let entry = self.memory.entry(table, slot);
            self.put_page_from_entry(entry, table, level);
        }
    }

    /// Gives a use back; the last use of a table releases what its entries refer to. `parent` is the table whose entry
    /// it was, if any.
    pub(super) fn put_page_type(&mut self, mfn: Mfn, parent: Option<Mfn>) {
        let Some(frame) = self.frames.get(mfn) else {
            return;
        };
        assert!(
            frame.type_count > 0,
            "{mfn}: a use was put that was not taken"
        );
        let page_type = frame.page_type;
        if let (1, true, PageType::Table(level)) = (frame.type_count, frame.validated, page_type) {
            let _ = self.frames.update(mfn, |frame| frame.validated = false);
            self.tolls.demotions += 1;
            self.release(mfn, level, ENTRIES);
        }
        if let Some(parent) = parent
            && self.type_of(parent) == page_type
        {
            self.count_linear(parent, mfn, -1);
        }
        let _ = self.frames.update(mfn, |frame| frame.type_count -= 1);
    }

    /// The use of a frame.
    pub(super) fn type_of(&self, mfn: Mfn) -> PageType {
        let frame = self.frames.get(mfn);
        frame.map_or(PageType::None, |frame| frame.page_type)
    }

    /// Adds to the entries that `parent` has to tables of its own level, and to the uses of `child` as one.
    pub(super) fn count_linear(&mut self, parent: Mfn, child: Mfn, by: i16) {
        for (mfn, by) in [(parent, by), (child, -by)] {
            let _ = self.frames.update(mfn, |frame| frame.linear += by);
        }
    }

    /// The use of a frame that is in use and checked, as `page_lock` demands it.
    pub(super) fn locked_type(&self, mfn: Mfn) -> Option<PageType> {
        let frame = self.frames.get(mfn)?;
        (frame.validated && frame.type_count > 0).then_some(frame.page_type)
    }

    /// The entry at an address, as the guest sees it.
    #[must_use]
    pub fn entry_at(&self, place: MachineAddress) -> PageTableEntry {
        PageTableEntry(self.memory.read(place))
    }

    /// A table's entry as the guest sees it.
    #[must_use]
    pub fn entry(&self, table: Mfn, slot: usize) -> PageTableEntry {
        self.memory.entry(table, slot)
    }
}

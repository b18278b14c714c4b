//! A CPU's memory of translations. Only flushes correct it: an entry of a table may change and the TLB does not know.
//!
//! It never forgets by itself. A real one may, so software may not rely on it; that is why a TLB that never forgets
//! finds the most missing flushes.

use std::collections::BTreeMap;

use pagetoll_units::{Mfn, VirtualAddress};

use super::entry::Flags;
use super::walk::Translation;

/// A process-context identifier; 0 without CR4.PCIDE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcid(pub u16);

/// One translation of a 4 KiB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbEntry {
    /// The frame.
    pub mfn: Mfn,
    /// Rights, and whether D and G are known to be set.
    pub flags: Flags,
}

/// A TLB with process-context identifiers and global pages (Intel SDM volume 3A, 4.10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tlb {
    // A global translation serves every context.
    entries: BTreeMap<(Option<Pcid>, u64), TlbEntry>,
}

impl Tlb {
    /// Translation of an address in a context.
    #[must_use]
    pub fn look_up(&self, pcid: Pcid, address: VirtualAddress) -> Option<TlbEntry> {
        let own = self.entries.get(&(Some(pcid), address.page()));
        let global = || self.entries.get(&(None, address.page()));
        own.or_else(global).copied()
    }

    /// Remembers a translation; a global one when `G` is among its flags.
    pub fn fill(&mut self, pcid: Pcid, address: VirtualAddress, translation: Translation) {
        let context = (!translation.flags.contains(Flags::GLOBAL)).then_some(pcid);
        let entry = TlbEntry {
            mfn: translation.mfn,
            flags: translation.flags,
        };
        self.entries.insert((context, address.page()), entry);
    }

    /// INVLPG: the page in this context, and global translations of it.
    pub fn flush_page(&mut self, pcid: Pcid, address: VirtualAddress) {
        self.entries.remove(&(Some(pcid), address.page()));
        self.entries.remove(&(None, address.page()));
    }

    /// A load of CR3: this context, global translations excepted.
    pub fn flush_context(&mut self, pcid: Pcid) {
        self.entries
            .retain(|(context, _), _| *context != Some(pcid));
    }

    /// A change of CR4.PGE: everything, in every context.
    pub fn flush_all(&mut self) {
        // Clearing an empty map is not free.
        if !self.entries.is_empty() {
            self.entries.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: VirtualAddress = VirtualAddress(0x1000);

    fn translation(mfn: u64, flags: Flags) -> Translation {
        Translation {
            mfn: Mfn(mfn),
            flags,
        }
    }

    #[test]
    fn contexts_do_not_see_each_other_except_through_global_pages() {
        let mut tlb = Tlb::default();
        tlb.fill(Pcid(1), HERE, translation(5, Flags::USER));
        assert_eq!(tlb.look_up(Pcid(2), HERE), None);
        tlb.fill(
            Pcid(1),
            VirtualAddress(0x2000),
            translation(6, Flags::GLOBAL),
        );
        let global = tlb.look_up(Pcid(2), VirtualAddress(0x2fff));
        assert_eq!(global.unwrap().mfn, Mfn(6));
    }

    #[test]
    fn each_flush_reaches_as_far_as_it_says() {
        let mut tlb = Tlb::default();
        tlb.fill(Pcid(1), HERE, translation(5, Flags::USER));
        tlb.fill(Pcid(2), HERE, translation(6, Flags::USER));
        tlb.fill(
            Pcid(1),
            VirtualAddress(0x2000),
            translation(7, Flags::GLOBAL),
        );
        tlb.flush_context(Pcid(1));
        assert_eq!(tlb.look_up(Pcid(1), HERE), None);
        assert!(tlb.look_up(Pcid(2), HERE).is_some());
        assert!(tlb.look_up(Pcid(1), VirtualAddress(0x2000)).is_some());
        tlb.flush_page(Pcid(2), VirtualAddress(0x2000));
        assert_eq!(tlb.look_up(Pcid(1), VirtualAddress(0x2000)), None);
        tlb.flush_all();
        assert_eq!(tlb, Tlb::default());
    }
}

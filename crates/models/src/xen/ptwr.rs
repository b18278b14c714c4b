//! ptwr: an instruction of the guest that writes to a page table it has mapped read-only, carried out by Xen.
//! Source: xen/arch/x86/pv/ro-page-fault.c, `pv_ro_page_fault`, `ptwr_emulated_update`, and the write-back of
//! xen/arch/x86/x86_emulate/x86_emulate.c, 4.17.
//!
//! Only L1 tables. Writes to memory-mapped PCI configuration, which the same handler emulates, are not modelled.

use pagetoll_units::{MachineAddress, VirtualAddress};

use super::adjust::adjust;
use super::domain::VcpuId;
use super::frame::PageType;
use super::machine::{Width, Xen};
use crate::x86::{Flags, Level, Memory, PageTableEntry};

/// The size of an instruction's operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    bytes: u32,
}

impl Operand {
    pub(super) const fn new(bytes: u32) -> Self {
        Self { bytes }
    }

    const fn mask(self) -> u64 {
        if self.bytes >= 8 {
            u64::MAX
        } else {
            (1 << (self.bytes * 8)) - 1
        }
    }

    const fn is_aligned(self, address: u64) -> bool {
        self.bytes.is_power_of_two() && address & (self.bytes as u64 - 1) == 0
    }

    /// Reads these bytes of the word around an address.
    pub(super) const fn extract(self, word: u64, address: u64) -> u64 {
        word >> ((address & 7) * 8) & self.mask()
    }

    /// The word with these bytes replaced.
    pub(super) const fn insert(self, word: u64, value: u64, address: u64) -> u64 {
        let shift = (address & 7) * 8;
        word & !(self.mask() << shift) | (value & self.mask()) << shift
    }
}

/// Effect on memory of an instruction that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// `mov` of the low bytes of a value.
    Move(u64),
    /// `xchg`.
    Exchange(u64),
    /// `lock cmpxchg`: `new` is stored where `old` is.
    CompareExchange {
        /// Value that has to be there.
        old: u64,
        /// Value that is stored over it.
        new: u64,
    },
}

impl Write {
    /// Value that it stores over the one that it finds, if any.
    pub(super) const fn value_over(self, found: u64) -> Option<u64> {
        match self {
            Self::Move(value) | Self::Exchange(value) => Some(value),
            Self::CompareExchange { old, new } if old == found => Some(new),
            Self::CompareExchange { .. } => None,
        }
    }
}

/// Store of the new entry: whatever is there, or only where the read one still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Plain,
    /// The upper half of a 32-bit guest's entry, plainly.
    PlainUpperHalf,
    CompareExchange,
}

impl Xen {
    /// Emulates a write to a read-only page. `None`: it is the guest's own fault to handle.
    pub(super) fn pv_ro_page_fault(
        &mut self,
        current: VcpuId,
        address: VirtualAddress,
        operand: Operand,
        write: Write,
    ) -> Option<u64> {
        let mapping = PageTableEntry(self.memory.read(self.guest_l1e(current, address)?));
        if !mapping.is_present() || mapping.has(Flags::WRITABLE) {
            return None;
        }
        let domain = self.vcpus[current.0].domain;
        let is_table = self.locked_type(mapping.mfn()) == Some(PageType::Table(Level::L1));
        if !is_table || !self.frames.get_page(mapping.mfn(), domain) {
            return None;
        }
        let place = mapping.mfn().address(address.offset());
        let emulated = self.emulate(place, operand, write, domain);
        self.frames.put_page(mapping.mfn());
        self.tolls.emulations += u64::from(emulated.is_some());
        emulated
    }

    /// Runs the instruction once. An exchange that another CPU came between begins again.
    fn emulate(
        &mut self,
        place: MachineAddress,
        operand: Operand,
        write: Write,
        domain: super::DomainId,
    ) -> Option<u64> {
        if !operand.is_aligned(place.0) {
            return None;
        }
        let is_upper_half = self.width == Width::Pae32 && operand.bytes == 4 && place.0 & 4 != 0;
        loop {
            let word = self.memory.read(place);
            let found = operand.extract(word, place.offset());
            let Some(value) = write.value_over(found) else {
                return Some(found);
            };
            let store = match write {
                Write::Move(_) if is_upper_half => Store::PlainUpperHalf,
                Write::Move(_) => Store::Plain,
                // The emulator writes nothing back that has not changed.
                _ if value == found => return Some(found),
                _ => Store::CompareExchange,
            };
            let wanted = PageTableEntry(operand.insert(word, value, place.offset()));
            if self.ptwr_emulated_update(place, PageTableEntry(word), wanted, store, domain)? {
                self.count_half(operand, write, place);
                return Some(found);
            }
        }
    }

    /// Counts a write to a half of a 32-bit guest's entry.
    fn count_half(&mut self, operand: Operand, write: Write, place: MachineAddress) {
        if operand.bytes != 4 {
            return;
        }
        match write {
            Write::Exchange(_) => self.tolls.emulated_half_exchanges += 1,
            Write::Move(_) if PageTableEntry(self.memory.read(place)).is_present() => {
                self.tolls.emulated_half_sets += 1;
            }
            Write::Move(_) | Write::CompareExchange { .. } => {}
        }
    }

    /// Checks and stores an L1 entry. Says whether it was stored; `None`: the guest may not have it.
    fn ptwr_emulated_update(
        &mut self,
        place: MachineAddress,
        old: PageTableEntry,
        wanted: PageTableEntry,
        store: Store,
        domain: super::DomainId,
    ) -> Option<bool> {
        let mut new = wanted;
        if new.is_present() {
            new = match self.get_page_from_l1e(new, domain, domain) {
                Ok(taken) => taken,
                // Xen takes it that the guest has the two writes the wrong way round, and lets it write the lower half.
                Err(_) if store == Store::PlainUpperHalf => new.without(Flags::PRESENT),
                Err(_) => return None,
            };
        }
        new = adjust(new, Level::L1, self.width);
        self.tolls.entries_revalidated += 1;
        let old = match store {
            Store::Plain | Store::PlainUpperHalf => {
                let old = PageTableEntry(self.memory.read(place));
                self.memory.write(place, new.0);
                old
            }
            Store::CompareExchange if !exchanged(&mut self.memory, place, old, new) => {
                self.put_page_from_l1e(new);
                return Some(false);
            }
            Store::CompareExchange => old,
        };
        self.put_page_from_l1e(old);
        Some(true)
    }
}

/// Stores a new entry where the old one still is, as one step; says whether it was.
pub fn exchanged(
    memory: &mut Memory,
    place: MachineAddress,
    old: PageTableEntry,
    new: PageTableEntry,
) -> bool {
    memory.compare_exchange(place, old.0, new.0) == old.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_word_are_taken_and_put_back() {
        let half = Operand::new(4);
        let word = 0x1122_3344_5566_7788;
        assert_eq!(half.extract(word, 4), 0x1122_3344);
        assert_eq!(
            half.insert(word, 0xffff_ffff_0000_0001, 4),
            0x0000_0001_5566_7788
        );
        assert_eq!(Operand::new(8).insert(word, 5, 0), 5);
        assert!(!half.is_aligned(0x1002) && half.is_aligned(0x1004));
    }
}

//! A walk of the guest's page tables by their bytes, as the CPU does it, but without rights: an access that may not touch a
//! page gets a fault from the guest's own kernel, not an exit.
//!
//! Paging off, two levels of 32 bits, PAE, four and five levels. It does not set A or D. Source: Intel SDM volume 3,
//! chapter 5 (paging).

use kvm_bindings::kvm_sregs;
use vm_memory::GuestAddress;

use crate::guest_pages::{GuestPages, PageState};

/// End of a walk without an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// This page of a table is missing.
    Missing(GuestAddress),
    /// An entry maps nothing, or a table is no guest memory: the guest gets a page fault, or worse.
    Guest,
}

const CR0_PG: u64 = 1 << 31;
const CR4_PSE: u64 = 1 << 4;
const CR4_PAE: u64 = 1 << 5;
const CR4_LA57: u64 = 1 << 12;
const EFER_LMA: u64 = 1 << 10;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
/// Bits 51 to 12 of an entry: the address of a table or a page.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Modes of address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    Off,
    /// Two levels of entries of 32 bits.
    Legacy,
    Pae,
    /// Four or five levels.
    Long(u32),
}

impl Paging {
    pub(super) const fn of(registers: &kvm_sregs) -> Self {
        if registers.cr0 & CR0_PG == 0 {
            Self::Off
        } else if registers.cr4 & CR4_PAE == 0 {
            Self::Legacy
        } else if registers.efer & EFER_LMA == 0 {
            Self::Pae
        } else if registers.cr4 & CR4_LA57 == 0 {
            Self::Long(4)
        } else {
            Self::Long(5)
        }
    }

    pub(super) const fn levels(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Legacy => 2,
            Self::Pae => 3,
            Self::Long(levels) => levels,
        }
    }

    /// Bytes of an entry.
    const fn entry(self) -> u64 {
        match self {
            Self::Legacy => 4,
            _ => 8,
        }
    }

    /// The lowest bit of an address that this level's index is taken from; level 1 maps pages of 4 KiB.
    const fn shift(self, level: u32) -> u32 {
        match self {
            Self::Legacy => 12 + 10 * (level - 1),
            _ => 12 + 9 * (level - 1),
        }
    }

    const fn index(self, level: u32, address: u64) -> u64 {
        let bits = match (self, level) {
            (Self::Legacy, _) => 10,
            (Self::Pae, 3) => 2,
            _ => 9,
        };
        address >> self.shift(level) & ((1 << bits) - 1)
    }

    pub(super) const fn root(self, cr3: u64) -> u64 {
        match self {
            Self::Legacy => cr3 & 0xffff_f000,
            // The four entries of PAE need not be at a page's start.
            Self::Pae => cr3 & 0xffff_ffe0,
            _ => cr3 & ADDRESS,
        }
    }

    /// The table that an entry refers to.
    pub(super) const fn table(self, entry: u64) -> u64 {
        entry & ADDRESS
    }

    /// Bytes of a table; PAE's top one has four entries and need not be at a page's start.
    pub(super) const fn table_bytes(self, level: u32) -> usize {
        match self {
            Self::Pae if level == 3 => 32,
            _ => 4096,
        }
    }

    /// Returns whether this entry maps a page, rather than a table.
    pub(super) const fn is_leaf(self, level: u32, entry: u64, cr4: u64) -> bool {
        let large = match (self, level) {
            (_, 1) => return true,
            (Self::Legacy, 2) => cr4 & CR4_PSE != 0,
            (Self::Pae, 3) => false,
            (_, 2 | 3) => true,
            _ => false,
        };
        large && entry & LARGE != 0
    }

    /// The first byte of the page that a leaf maps.
    const fn page(self, level: u32, entry: u64) -> u64 {
        match (self, level) {
            (Self::Legacy, 1) => entry & 0xffff_f000,
            // PSE-36: bits 20 to 13 are bits 39 to 32 of the address.
            (Self::Legacy, _) => entry & 0xffc0_0000 | (entry >> 13 & 0xff) << 32,
            _ => entry & ADDRESS & !((1 << self.shift(level)) - 1),
        }
    }
}

/// The guest physical address of a linear address.
pub(super) fn walk(
    memory: &impl GuestPages,
    registers: &kvm_sregs,
    address: u64,
) -> Result<GuestAddress, Stop> {
    let paging = Paging::of(registers);
    let mut table = paging.root(registers.cr3);
    for level in (1..=paging.levels()).rev() {
        let entry = table + paging.index(level, address) * paging.entry();
        let entry = read_entry(memory, GuestAddress(entry), paging)?;
        if paging.is_leaf(level, entry, registers.cr4) {
            let offset = address & ((1 << paging.shift(level)) - 1);
            return Ok(GuestAddress(paging.page(level, entry) | offset));
        }
        table = paging.table(entry);
    }
    // Paging is off: such addresses have 32 bits.
    Ok(GuestAddress(address & u64::from(u32::MAX)))
}

fn read_entry(memory: &impl GuestPages, at: GuestAddress, paging: Paging) -> Result<u64, Stop> {
    match memory.state(at) {
        PageState::Present => {}
        PageState::Missing => return Err(Stop::Missing(at)),
        PageState::Outside => return Err(Stop::Guest),
    }
    let mut bytes = [0; 8];
    let length = if paging == Paging::Legacy { 4 } else { 8 };
    memory.read(at, &mut bytes[..length]);
    match u64::from_le_bytes(bytes) {
        entry if entry & PRESENT == 0 => Err(Stop::Guest),
        entry => Ok(entry),
    }
}

#[cfg(test)]
pub(super) mod tests;

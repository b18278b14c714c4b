//! A process's pages, and the entries that map them, in the tables below the kernel's root.
//!
//! A table's entries are stored while it is still an ordinary page, as in a fork before the new address space is
//! pinned; then it becomes a table, and Xen checks all of it.

use pagetoll_units::{MachineAddress, Mfn, VirtualAddress};

use super::kernel::{Kernel, oops};
use crate::Error;
use crate::x86::{ENTRIES, Level, PageTableEntry, slot};

/// Bytes that one L1 table maps.
pub(super) const TABLE_SPAN: u64 = (ENTRIES as u64) << 12;

/// Addresses of a process's pages, from its first L1 table on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpace {
    /// The first address, at an L1 table's beginning.
    pub start: VirtualAddress,
    /// Number of pages.
    pub pages: u64,
}

/// Entries of one L1 table that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Address that the first one maps.
    pub address: VirtualAddress,
    /// Place of the first one in memory.
    pub place: MachineAddress,
    /// Number of entries, up to the table's end at most.
    pub count: usize,
}

impl Entries {
    /// Runs of `batch` of these entries.
    pub(super) fn batches(self, batch: usize) -> impl Iterator<Item = Self> {
        (0..self.count).step_by(batch).map(move |first| Self {
            address: VirtualAddress(self.address.0 + ((first as u64) << 12)),
            place: MachineAddress(self.place.0 + first as u64 * 8),
            count: batch.min(self.count - first),
        })
    }

    /// Place of each entry, and the address that it maps.
    pub(super) fn each(self) -> impl Iterator<Item = (MachineAddress, VirtualAddress)> {
        self.batches(1).map(|one| (one.place, one.address))
    }
}

impl AddressSpace {
    /// An address space of as many pages, from where programs are mapped.
    pub(super) const fn new(pages: u64) -> Self {
        Self {
            start: VirtualAddress(TABLE_SPAN),
            pages,
        }
    }

    /// First address and number of used entries of each L1 table.
    pub(super) fn tables(self) -> impl Iterator<Item = (VirtualAddress, usize)> {
        let end = self.end();
        let step = usize::try_from(TABLE_SPAN).unwrap_or(usize::MAX);
        let first = self.start.0 & !(TABLE_SPAN - 1);
        (first..end).step_by(step).map(move |table| {
            let address = table.max(self.start.0);
            let pages = ((table + TABLE_SPAN).min(end) - address) >> 12;
            (
                VirtualAddress(address),
                usize::try_from(pages).unwrap_or(ENTRIES),
            )
        })
    }

    /// The first address beyond it.
    pub(super) const fn end(self) -> u64 {
        self.start.0 + (self.pages << 12)
    }
}

impl Kernel {
    /// The table of a level that maps an address, found as the CPU finds it.
    pub(super) fn table(&self, address: VirtualAddress, wanted: Level) -> Option<Mfn> {
        let mut table = self.xen.vcpus()[self.vcpu.0].guest_table;
        for level in Level::DOWNWARDS {
            if level == wanted {
                return Some(table);
            }
            let entry = self.xen.entry(table, slot(address, level));
            if !entry.is_present() {
                return None;
            }
            table = entry.mfn();
        }
        None
    }

    /// The entries of an address space, an L1 table each.
    pub(super) fn page_tables(&self, space: AddressSpace) -> impl Iterator<Item = Entries> + '_ {
        space.tables().filter_map(|(address, count)| {
            let table = self.table(address, Level::L1)?;
            let place = table.address(slot(address, Level::L1) as u64 * 8);
            Some(Entries {
                address,
                place,
                count,
            })
        })
    }

    /// Maps an address space: page number `i` by entry `entry(i)`.
    pub(super) fn map(
        &mut self,
        space: AddressSpace,
        entry: impl Fn(u64) -> PageTableEntry,
    ) -> Result<(), Error> {
        let mut first = 0;
        for (address, count) in space.tables() {
            let end = first + count as u64;
            self.map_table(address, (first..end).map(|page| entry(page).0))?;
            first = end;
        }
        Ok(())
    }

    /// Fills a new L1 table and hooks it in.
    fn map_table(
        &mut self,
        address: VirtualAddress,
        entries: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        let table = self.xen.allocate();
        let here = VirtualAddress(self.xen.direct(table).0 + slot(address, Level::L1) as u64 * 8);
        let stored = self.xen.store_words(self.vcpu, here, entries);
        stored.map_err(oops(here))?;
        self.alloc_pte(address, table)
    }

    /// Reads entries through the direct map, as the kernel does, and adds them to `into`.
    pub(super) fn read_entries(
        &mut self,
        entries: Entries,
        into: &mut Vec<PageTableEntry>,
    ) -> Result<(), Error> {
        let mut words = [0; ENTRIES];
        let words = &mut words[..entries.count];
        self.load_entries(entries, words)?;
        into.extend(words.iter().map(|&word| PageTableEntry(word)));
        Ok(())
    }

    /// Reads the entries into an array.
    pub(super) fn load_entries(
        &mut self,
        entries: Entries,
        words: &mut [u64],
    ) -> Result<(), Error> {
        self.entries_read += entries.count as u64;
        let here = self.lowmem(entries.place);
        let loaded = self.xen.load_words(self.vcpu, here, words);
        loaded.map_err(oops(here))
    }

    /// Address of a byte of memory in the direct map.
    pub(super) const fn lowmem(&self, place: MachineAddress) -> VirtualAddress {
        VirtualAddress(self.xen.direct(place.mfn()).0 + place.offset())
    }
}

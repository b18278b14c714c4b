//! Machine memory, a frame of 512 words at a time.
//!
//! A frame that was never written reads as zero and takes no room: a machine of a tebibyte is mostly such frames.

use std::collections::BTreeMap;

use pagetoll_units::{MachineAddress, Mfn};

use super::entry::PageTableEntry;

/// Entries of a page table, and words of a frame.
pub const ENTRIES: usize = 512;

/// The contents of machine frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    frames: BTreeMap<Mfn, Box<[u64; ENTRIES]>>,
}

/// The word of a frame that holds this byte.
#[allow(clippy::cast_possible_truncation, reason = "an offset is below 4096")]
const fn word_of(address: MachineAddress) -> usize {
    (address.offset() / 8) as usize
}

/// The words of a frame from this one on.
fn following(from: MachineAddress) -> impl Iterator<Item = MachineAddress> {
    let offsets = (from.offset() & !7..4096).step_by(8);
    offsets.map(move |offset| from.mfn().address(offset))
}

impl Memory {
    /// The aligned word that holds this byte.
    #[must_use]
    pub fn read(&self, address: MachineAddress) -> u64 {
        let frame = self.frames.get(&address.mfn());
        frame.map_or(0, |words| words[word_of(address)])
    }

    /// Stores to the aligned word that holds this byte.
    pub fn write(&mut self, address: MachineAddress, value: u64) {
        if value == 0 && !self.frames.contains_key(&address.mfn()) {
            return;
        }
        let frame = self.frames.entry(address.mfn());
        frame.or_insert_with(|| Box::new([0; ENTRIES]))[word_of(address)] = value;
    }

    /// Consecutive words of one frame. What lies beyond its end reads as zero.
    pub fn read_words(&self, from: MachineAddress, words: &mut [u64]) {
        for (word, address) in words.iter_mut().zip(following(from)) {
            *word = self.read(address);
        }
    }

    /// Stores consecutive words of one frame, as far as there are any before its end.
    pub fn write_words(&mut self, to: MachineAddress, words: impl Iterator<Item = u64>) {
        for (address, word) in following(to).zip(words) {
            self.write(address, word);
        }
    }

    /// Stores `new` where `old` is, as one step; returns what was there.
    pub fn compare_exchange(&mut self, address: MachineAddress, old: u64, new: u64) -> u64 {
        let found = self.read(address);
        if found == old {
            self.write(address, new);
        }
        found
    }

    /// Stores a value, as one step with the load of what was there.
    pub fn exchange(&mut self, address: MachineAddress, new: u64) -> u64 {
        let found = self.read(address);
        self.write(address, new);
        found
    }

    /// An entry of the table in a frame.
    #[must_use]
    pub fn entry(&self, table: Mfn, slot: usize) -> PageTableEntry {
        let frame = self.frames.get(&table);
        PageTableEntry(frame.map_or(0, |words| words[slot]))
    }

    /// Stores an entry of the table in a frame.
    pub fn set_entry(&mut self, table: Mfn, slot: usize, entry: PageTableEntry) {
        self.write(table.address(slot as u64 * 8), entry.0);
    }

    /// Makes a frame all zero.
    pub fn clear(&mut self, mfn: Mfn) {
        self.frames.remove(&mfn);
    }

    /// Copies all of a frame.
    pub fn copy(&mut self, from: Mfn, to: Mfn) {
        match self.frames.get(&from).cloned() {
            Some(words) => self.frames.insert(to, words),
            None => self.frames.remove(&to),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_is_zero() {
        let mut memory = Memory::default();
        let there = Mfn(7).address(0x10);
        assert_eq!(memory.read(there), 0);
        memory.write(there, 0);
        assert_eq!(memory, Memory::default());
        memory.write(there, 5);
        assert_eq!(memory.entry(Mfn(7), 2), PageTableEntry(5));
        memory.copy(Mfn(7), Mfn(8));
        memory.clear(Mfn(7));
        assert_eq!((memory.read(there), memory.entry(Mfn(8), 2).0), (0, 5));
    }

    #[test]
    fn an_exchange_happens_only_over_the_expected() {
        let mut memory = Memory::default();
        let there = Mfn(1).address(0);
        assert_eq!(memory.compare_exchange(there, 1, 2), 0);
        assert_eq!(memory.read(there), 0);
        assert_eq!(memory.compare_exchange(there, 0, 2), 0);
        assert_eq!(memory.read(there), 2);
    }
}

//! Machine memory, a frame of 512 words at a time.
//!
//! A frame that was never written reads as zero and takes no room, and tables whose entries follow each other take
//! little: a machine of a tebibyte is mostly such frames.

use std::ops::Range;

use pagetoll_units::{MachineAddress, Mfn};

use super::entry::PageTableEntry;
use crate::words::{CHUNK, Words};

/// Entries of a page table, and words of a frame.
pub const ENTRIES: usize = CHUNK;

/// The contents of machine frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    words: Words,
}

/// The number of the word that holds this byte. On a machine that cannot count so far, no memory is there.
fn word_of(address: MachineAddress) -> usize {
    usize::try_from(address.0 / 8).unwrap_or(usize::MAX)
}

impl Memory {
    /// The aligned word that holds this byte.
    #[must_use]
    pub fn read(&self, address: MachineAddress) -> u64 {
        self.words.get(word_of(address))
    }

    /// Stores to the aligned word that holds this byte.
    pub fn write(&mut self, address: MachineAddress, value: u64) {
        self.words.set(word_of(address), value);
    }

    /// Consecutive words of one frame, up to its end at most.
    pub fn read_words(&self, from: MachineAddress, words: &mut [u64]) {
        self.words.read(word_of(from), words);
    }

    /// Stores consecutive words of one frame, up to its end at most.
    pub fn write_words(&mut self, to: MachineAddress, words: impl Iterator<Item = u64>) {
        let first = word_of(to);
        let end = (first / ENTRIES + 1) * ENTRIES;
        for (index, word) in (first..end).zip(words) {
            self.words.set(index, word);
        }
    }

    /// Stores `new` where `old` is, as one step; returns what was there.
    pub fn compare_exchange(&mut self, address: MachineAddress, old: u64, new: u64) -> u64 {
        self.words.update(word_of(address), |word| {
            let found = *word;
            if found == old {
                *word = new;
            }
            found
        })
    }

    /// Stores a value, as one step with the load of what was there.
    pub fn exchange(&mut self, address: MachineAddress, new: u64) -> u64 {
        self.words
            .update(word_of(address), |word| std::mem::replace(word, new))
    }

    /// An entry of the table in a frame.
    #[must_use]
    pub fn entry(&self, table: Mfn, slot: usize) -> PageTableEntry {
        PageTableEntry(self.read(table.address(slot as u64 * 8)))
    }

    /// Stores an entry of the table in a frame.
    pub fn set_entry(&mut self, table: Mfn, slot: usize, entry: PageTableEntry) {
        self.write(table.address(slot as u64 * 8), entry.0);
    }

    /// Stores entries for frames that follow each other, with the same flags, in slots that do.
    pub fn set_entries(&mut self, table: Mfn, slots: Range<usize>, first: PageTableEntry) {
        let from = word_of(table.address(0));
        let step = PageTableEntry::new(Mfn(1), super::Flags::empty()).0;
        self.words
            .fill(from + slots.start..from + slots.end, first.0, step);
    }

    /// Makes a frame all zero.
    pub fn clear(&mut self, mfn: Mfn) {
        let from = word_of(mfn.address(0));
        self.words.fill(from..from + ENTRIES, 0, 0);
    }

    /// Copies all of a frame.
    pub fn copy(&mut self, from: Mfn, to: Mfn) {
        let chunk = |mfn: Mfn| word_of(mfn.address(0)) / CHUNK;
        self.words.copy_chunk(chunk(from), chunk(to));
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
        assert_eq!(memory.exchange(there, 3), 2);
        assert_eq!(memory.read(there), 3);
    }

    #[test]
    fn words_are_stored_and_loaded_up_to_the_end_of_the_frame() {
        let mut memory = Memory::default();
        memory.write_words(Mfn(3).address(4080), 1..=5);
        assert_eq!(memory.entry(Mfn(4), 0), PageTableEntry::EMPTY);
        let mut words = [9; 2];
        memory.read_words(Mfn(3).address(4080), &mut words);
        assert_eq!(words, [1, 2]);
    }

    #[test]
    fn entries_in_a_row_map_frames_in_a_row() {
        let mut memory = Memory::default();
        let first = PageTableEntry::new(Mfn(9), crate::x86::Flags::PRESENT);
        memory.set_entries(Mfn(3), 2..5, first);
        let frames = (1..6).map(|slot| memory.entry(Mfn(3), slot).mfn().0);
        assert_eq!(frames.collect::<Vec<_>>(), [0, 9, 10, 11, 0]);
    }
}

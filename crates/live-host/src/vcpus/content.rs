//! Content of the pages: every word is known, so that a lost, torn or misplaced page is seen.

use pagetoll_vmm::guest::Layout;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::LiveError;

/// The content of all paged memory: word number `n` is `first + n * step`, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Word number 0.
    pub first: u64,
    /// Difference of a word and the one before.
    pub step: u64,
}

impl Content {
    /// Zeroes, as the kernel fills in.
    pub const ZERO: Self = Self { first: 0, step: 0 };

    /// Words that all differ: the step is odd (2^64 divided by the golden ratio).
    pub const WORDS: Self = Self {
        first: 1,
        step: 0x9e37_79b9_7f4a_7c15,
    };

    /// The word of a number.
    pub const fn word(self, number: u64) -> u64 {
        self.first.wrapping_add(number.wrapping_mul(self.step))
    }

    /// Words like [`WORDS`](Self::WORDS) from another first one on.
    pub const fn new_words(first: u64) -> Self {
        Self {
            first,
            ..Self::WORDS
        }
    }

    /// The content as bytes.
    pub fn bytes(self, pages: u64) -> Vec<u8> {
        self.bytes_from(0, pages)
    }

    /// The content of some pages as bytes.
    pub fn bytes_from(self, first: u64, pages: u64) -> Vec<u8> {
        (first * 512..(first + pages) * 512)
            .flat_map(|number| self.word(number).to_le_bytes())
            .collect()
    }

    /// Sum of the first words of those pages of an order that a guest does not write, which it reads.
    pub fn sum_read(self, order: &[u64], first_page: u64) -> u64 {
        let read = order.iter().filter(|entry| *entry & 1 == 0);
        let first_words = read.map(|offset| self.word(first_page * 512 + offset / 8));
        first_words.fold(0, u64::wrapping_add)
    }

    /// Number of pages of a vCPU that hold something else than they should after the guest has touched them.
    pub fn wrong_pages(
        self,
        memory: &GuestMemoryMmap,
        layout: Layout,
        vcpu: usize,
        order: &[u64],
    ) -> Result<u64, LiveError> {
        let first_page = vcpu as u64 * layout.pages;
        let mut bytes = [0; 4096];
        let mut wrong = 0;
        for entry in order {
            let offset = entry & !1;
            let address = GuestAddress(layout.data_of(vcpu) + offset);
            memory.read_slice(&mut bytes, address)?;
            if !self.is_right(&bytes, first_page * 512 + offset / 8, *entry) {
                wrong += 1;
            }
        }
        Ok(wrong)
    }

    fn is_right(self, page: &[u8; 4096], first_word: u64, entry: u64) -> bool {
        let (words, _) = page.as_chunks::<8>();
        (first_word..)
            .zip(words)
            .enumerate()
            .all(|(index, (number, word))| {
                let expected = if index == 1 && entry & 1 == 1 {
                    entry
                } else {
                    self.word(number)
                };
                u64::from_le_bytes(*word) == expected
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> [u8; 4096] {
        Content::WORDS.bytes(1).try_into().unwrap()
    }

    #[test]
    fn a_page_is_right_only_where_every_word_is() {
        assert!(Content::WORDS.is_right(&page(), 0, 0));
        for byte in [0, 8, 9, 4095] {
            let mut torn = page();
            torn[byte] ^= 1;
            assert!(!Content::WORDS.is_right(&torn, 0, 0), "byte {byte}");
        }
        assert!(
            !Content::WORDS.is_right(&page(), 512, 0),
            "another page's content"
        );
    }

    #[test]
    fn a_written_page_holds_what_was_written() {
        let mut written = page();
        assert!(
            !Content::WORDS.is_right(&written, 0, 0x5001),
            "a lost write"
        );
        written[8..16].copy_from_slice(&0x5001_u64.to_le_bytes());
        assert!(Content::WORDS.is_right(&written, 0, 0x5001));
        assert!(
            !Content::WORDS.is_right(&written, 0, 0x5000),
            "a write that was not made"
        );
    }

    #[test]
    fn only_reads_are_summed() {
        let order = [0, 4096 | 1, 8192];
        let sum = Content::WORDS
            .word(512)
            .wrapping_add(Content::WORDS.word(512 + 1024));
        assert_eq!(Content::WORDS.sum_read(&order, 1), sum);
    }
}

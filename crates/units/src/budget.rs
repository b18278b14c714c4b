//! The memory that a reader of foreign files may take: in proportion to the file, however it is made.
//!
//! A reader that keeps what it reads says of each part how much memory that takes, and stops where its budget ends. A file
//! may be 256 MiB, and two bytes of it, such as `0,`, may say what takes hundreds to keep.

use thiserror::Error;

/// Bytes of memory for each byte of a file. Of what is decompressed, for each byte that it has then.
pub const MEMORY_PER_BYTE: usize = 8;

/// Bytes of memory for any file, however short: buffers, and tables that have limits of their own.
pub const MEMORY_OF_ANY_FILE: usize = 16 << 20;

/// Memory that a value of a JSON document is assumed to take in a structure, with what the structure becomes.
const JSON_VALUE: usize = 200;

/// Memory that a value or a line of a text such as TOML is assumed to take while it is read: an inline table with a value,
/// `{a=0},`, takes 1,500 bytes.
const TEXT_VALUE: usize = 1024;

/// A document with more values than its size allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("has {found} values; expected at most {most} in {bytes} bytes")]
pub struct TooManyValues {
    found: usize,
    most: usize,
    bytes: usize,
}

/// Refuses a JSON document that would take more memory in a structure than its size allows.
///
/// # Errors
/// [`TooManyValues`].
pub fn check_json(json: &[u8]) -> Result<(), TooManyValues> {
    check(json, b",[{", JSON_VALUE)
}

/// Refuses a text that people write, of TOML or of lines, that would take more memory than its size allows.
///
/// # Errors
/// [`TooManyValues`].
pub fn check_text(text: &str) -> Result<(), TooManyValues> {
    check(text.as_bytes(), b",[{=.\n", TEXT_VALUE)
}

/// Counts what begins with one of these signs and takes so much memory.
fn check(bytes: &[u8], signs: &[u8], memory: usize) -> Result<(), TooManyValues> {
    let found = bytes.iter().filter(|byte| signs.contains(byte)).count();
    let (most, bytes) = (Budget::new(bytes.len()).fits(memory), bytes.len());
    match found <= most {
        true => Ok(()),
        false => Err(TooManyValues { found, most, bytes }),
    }
}

/// The most that the reader of a file of so many bytes takes, with the file.
#[must_use]
pub const fn most_memory(bytes: usize) -> usize {
    bytes
        .saturating_mul(MEMORY_PER_BYTE)
        .saturating_add(MEMORY_OF_ANY_FILE)
}

/// Memory that a reader may still use for a file.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: usize,
}

impl Budget {
    /// The budget for a file of so many bytes. The file itself takes its part, and so does what a reader does not count.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        let mut budget = Self {
            left: MEMORY_OF_ANY_FILE / 2,
        };
        budget.grow(bytes);
        budget
    }

    /// Adds what so many more bytes of a stream allow.
    pub const fn grow(&mut self, bytes: usize) {
        let more = bytes.saturating_mul(MEMORY_PER_BYTE - 2);
        self.left = self.left.saturating_add(more);
    }

    /// Takes so many bytes of memory; `None` where fewer are left.
    #[must_use]
    pub const fn take(&mut self, memory: usize) -> Option<()> {
        match self.left.checked_sub(memory) {
            Some(left) => {
                self.left = left;
                Some(())
            }
            None => None,
        }
    }

    /// Number of items of this size that would fit.
    #[must_use]
    pub const fn fits(self, memory: usize) -> usize {
        self.left / memory
    }

    /// Gives back what is no longer kept.
    pub const fn give_back(&mut self, memory: usize) {
        self.left = self.left.saturating_add(memory);
    }
}

/// Memory of an element of a vector that grows: while it doubles, there are an old and a new one.
#[must_use]
pub const fn in_vector<T>() -> usize {
    3 * size_of::<T>()
}

/// Memory of an entry of a B-tree whose nodes are half full.
#[must_use]
pub const fn in_tree<K, V>() -> usize {
    2 * (size_of::<K>() + size_of::<V>())
}

/// Memory of a B-tree's first node, which has space for eleven entries.
#[must_use]
pub const fn first_tree_node<K, V>() -> usize {
    16 + 11 * (size_of::<K>() + size_of::<V>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_until_it_is_given_back() {
        let mut budget = Budget::new(0);
        assert_eq!(budget.take(MEMORY_OF_ANY_FILE), None);
        assert_eq!(budget.take(MEMORY_OF_ANY_FILE / 2), Some(()));
        assert_eq!(budget.take(1), None);
        budget.give_back(1);
        assert_eq!(budget.take(1), Some(()));
        budget.grow(1);
        assert_eq!(budget.take(MEMORY_PER_BYTE), None);
        assert_eq!(Budget::new(0).fits(MEMORY_OF_ANY_FILE / 4), 2);
        assert_eq!(Budget::new(usize::MAX).take(usize::MAX), Some(()));
    }

    #[test]
    fn texts_and_documents_that_would_take_too_much_are_refused_with_their_limit() {
        let dense = format!("[{}0]", "0,".repeat(1 << 20));
        let refused = check_json(dense.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            refused,
            "has 1048577 values; expected at most 104857 in 2097155 bytes"
        );
        assert_eq!(check_json(&dense.as_bytes()[..1 << 16]), Ok(()));
        let refused = check_text(&dense).unwrap_err().to_string();
        assert_eq!(
            refused,
            "has 1048577 values; expected at most 20480 in 2097155 bytes"
        );
        assert_eq!(check_text(&dense[..1 << 14]), Ok(()));
    }
}

//! What a guest gets when it is ready for it: files, in the memory that it shares with the host.
//!
//! For each file a line `NAME SIZE` and its bytes, then an empty line: `guests/init/receive.c` reads that.

/// What a guest looks at: `MOST_RECEIVED` of `guests/lib/linux/guest/shared_memory.c`.
pub(crate) const MOST: usize = 1 << 20;

/// Files for a guest's root folder, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    bytes: Vec<u8>,
}

impl Delivery {
    /// Adds a file. Its name has neither slashes nor white space, and at most 63 bytes.
    pub(crate) fn file(&mut self, name: &str, bytes: &[u8]) {
        let head = format!("{name} {}\n", bytes.len());
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// As it lies in the shared memory.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.bytes[..], b"\n"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_line_before_it_and_the_last_an_empty_one_after() {
        let mut delivery = Delivery::default();
        assert_eq!(delivery.bytes(), b"\n");
        delivery.file("order", b"pages 1\n");
        delivery.file("cases", b"");
        assert_eq!(delivery.bytes(), b"order 8\npages 1\ncases 0\n\n");
    }
}

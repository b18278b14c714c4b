//! Physical memory: folios, how often each page is pinned, and the first word of each.
//!
//! `struct page` and `struct folio` of Linux, as far as pinning sees them.

use std::collections::BTreeMap;

/// Contiguous frames that the kernel manages as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Its first frame.
    pub head: u64,
    /// Its frames.
    pub pages: u64,
}

impl Folio {
    /// Frames from `pfn` to its end.
    #[must_use]
    pub const fn rest(self, pfn: u64) -> u64 {
        self.head + self.pages - pfn
    }
}

/// Physical memory.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    folios: BTreeMap<u64, Folio>,
    pins: BTreeMap<u64, u32>,
    words: BTreeMap<u64, u64>,
    unpinned_without_pin: u64,
}

impl Frames {
    /// Adds a folio.
    pub fn add(&mut self, folio: Folio) {
        self.folios.insert(folio.head, folio);
    }

    /// The folio of a frame; `None` for a reserved one, which no folio has.
    #[must_use]
    pub fn folio(&self, pfn: u64) -> Option<Folio> {
        let (_, folio) = self.folios.range(..=pfn).next_back()?;
        (pfn < folio.head + folio.pages).then_some(*folio)
    }

    /// Returns whether the frame is neither accounted nor pinned: `is_invalid_reserved_pfn`.
    #[must_use]
    pub fn is_reserved(&self, pfn: u64) -> bool {
        self.folio(pfn).is_none()
    }

    /// Pins frames.
    pub fn pin(&mut self, pfn: u64, pages: u64) {
        for pfn in pfn..pfn + pages {
            *self.pins.entry(pfn).or_default() += 1;
        }
    }

    /// Unpins frames. One that was not pinned is remembered: the kernel would free memory in use.
    pub fn unpin(&mut self, pfn: u64, pages: u64) {
        for pfn in pfn..pfn + pages {
            match self.pins.get_mut(&pfn) {
                Some(1) => drop(self.pins.remove(&pfn)),
                Some(pins) => *pins -= 1,
                None => self.unpinned_without_pin += 1,
            }
        }
    }

    /// Number of pins of a frame.
    #[must_use]
    pub fn pins(&self, pfn: u64) -> u32 {
        self.pins.get(&pfn).copied().unwrap_or(0)
    }

    /// Frames that are pinned.
    #[must_use]
    pub fn pinned(&self) -> u64 {
        u64::try_from(self.pins.len()).unwrap_or(u64::MAX)
    }

    /// Number of times that a frame was unpinned without a pin.
    #[must_use]
    pub const fn unpinned_without_pin(&self) -> u64 {
        self.unpinned_without_pin
    }

    /// The first word of a frame.
    #[must_use]
    pub fn word(&self, pfn: u64) -> u64 {
        self.words.get(&pfn).copied().unwrap_or(0)
    }

    /// Writes the first word of a frame.
    pub fn set_word(&mut self, pfn: u64, word: u64) {
        self.words.insert(pfn, word);
    }
}

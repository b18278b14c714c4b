//! Machine frames: who owns one, how many refer to it, and as what it is used.
//!
//! Xen keeps this in `struct page_info` (xen/arch/x86/include/asm/mm.h, 4.17): `count_info` and `type_info` pack what
//! is a field each here. Source of the functions: xen/arch/x86/mm.c, `get_page`, `page_get_owner_and_reference`,
//! `put_page`.

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_units::Mfn;

use super::domain::DomainId;
use super::packed::{ASIDE, pack, unpack};
use crate::words::Words;
use crate::x86::Level;

/// Use of a frame, which excludes every other use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageType {
    /// Never used as anything (`PGT_none`).
    #[default]
    None,
    /// A page table of this level.
    Table(Level),
    /// Descriptors of a GDT or LDT (`PGT_seg_desc_page`).
    SegmentDescriptors,
    /// Something mapped writable.
    Writable,
}

/// State of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its owner, while it is in use.
    pub owner: Option<DomainId>,
    /// References, with the one for being allocated (`PGC_count_mask`). 0: not in use by any domain.
    pub references: u32,
    /// The frame is part of Xen's heap, though a domain may own it (`PGC_xen_heap`).
    pub xen_heap: bool,
    /// Its use, or its last use when `type_count` is 0.
    pub page_type: PageType,
    /// Uses as that (`PGT_count_mask`).
    pub type_count: u32,
    /// The frame was checked for that use (`PGT_validated`).
    pub validated: bool,
    /// A guest pinned the frame to that use (`PGT_pinned`).
    pub pinned: bool,
    /// Tables of the same level that it refers to, or, negative, that refer to it.
    pub linear: i16,
}

impl Frame {
    /// A frame of a domain's own, with the reference for being allocated.
    #[must_use]
    pub fn new(owner: DomainId) -> Self {
        Self {
            owner: Some(owner),
            references: 1,
            ..Self::default()
        }
    }
}

/// Frames of the machine, from 0. A word each; a frame that does not fit into one lies aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTable {
    words: Words,
    aside: BTreeMap<Mfn, Frame>,
    length: usize,
}

impl FrameTable {
    /// A table of frames without owners.
    #[must_use]
    pub fn new(frames: usize) -> Self {
        Self {
            length: frames,
            ..Self::default()
        }
    }

    /// Number of frames.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there is no frame.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Frames with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Mfn, Frame)> + '_ {
        let all = (0..).map(Mfn).take(self.length);
        all.filter_map(|mfn| Some((mfn, self.get(mfn)?)))
    }

    #[inline]
    fn index(&self, mfn: Mfn) -> Option<usize> {
        usize::try_from(mfn.0)
            .ok()
            .filter(|&index| index < self.length)
    }

    /// State of a frame; `None` for one that does not exist (`mfn_valid`).
    #[must_use]
    #[inline]
    pub fn get(&self, mfn: Mfn) -> Option<Frame> {
        match self.words.get(self.index(mfn)?) {
            ASIDE => self.aside.get(&mfn).copied(),
            word => Some(unpack(word)),
        }
    }

    /// Changes what is known of a frame, and returns what `change` does; `None` for one that does not exist.
    #[inline]
    pub fn update<R>(&mut self, mfn: Mfn, change: impl FnOnce(&mut Frame) -> R) -> Option<R> {
        let index = self.index(mfn)?;
        let aside = &mut self.aside;
        let result = self.words.update(index, |word| {
            let mut frame = match *word {
                ASIDE => aside.remove(&mfn).unwrap_or_default(),
                word => unpack(word),
            };
            let result = change(&mut frame);
            *word = pack(frame).unwrap_or_else(|| {
                aside.insert(mfn, frame);
                ASIDE
            });
            result
        });
        Some(result)
    }

    /// Makes all frames of a range alike, as far as they exist.
    pub fn fill(&mut self, range: Range<Mfn>, frame: Frame) {
        let index = |mfn: Mfn| {
            usize::try_from(mfn.0)
                .unwrap_or(usize::MAX)
                .min(self.length)
        };
        let (start, end) = (index(range.start), index(range.end));
        self.aside.retain(|mfn, _| !range.contains(mfn));
        match pack(frame) {
            Some(packed) => self.words.fill(start..end, packed, 0),
            None => {
                self.words.fill(start..end, ASIDE, 0);
                let all = (start..end).map(|index| (Mfn(index as u64), frame));
                self.aside.extend(all);
            }
        }
    }

    /// Takes a reference whatever the owner, and returns the owner. `None`: the frame does not exist or is not in use.
    pub fn take_reference(&mut self, mfn: Mfn) -> Option<DomainId> {
        self.update(mfn, |frame| {
            frame.references += u32::from(frame.references > 0);
            frame.owner
        })?
    }

    /// Takes a reference if the frame belongs to this domain (`get_page_from_mfn`).
    pub fn get_page(&mut self, mfn: Mfn, domain: DomainId) -> bool {
        let taken = self.update(mfn, |frame| {
            let is_own = frame.owner == Some(domain) && frame.references > 0;
            frame.references += u32::from(is_own);
            is_own
        });
        taken == Some(true)
    }

    /// Gives a reference back; the last one frees the frame.
    ///
    /// # Panics
    /// When there is no reference to give back, which would be a mistake in this crate.
    pub fn put_page(&mut self, mfn: Mfn) {
        let put = self.update(mfn, |frame| {
            let held = frame.references > 0;
            frame.references -= u32::from(held);
            if frame.references == 0 {
                *frame = Frame::default();
            }
            held
        });
        assert!(
            put == Some(true),
            "{mfn}: a reference was put that was not taken"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(frames: usize) -> FrameTable {
        let mut table = FrameTable::new(frames);
        table.fill(Mfn(0)..Mfn(1), Frame::new(DomainId(3)));
        table
    }

    #[test]
    fn only_frames_in_use_and_of_the_own_domain_are_to_be_had() {
        let mut frames = table(2);
        assert!(frames.get_page(Mfn(0), DomainId(3)));
        assert!(!frames.get_page(Mfn(0), DomainId(4)));
        assert!(!frames.get_page(Mfn(1), DomainId(3)));
        assert!(!frames.get_page(Mfn(2), DomainId(3)));
        assert_eq!(frames.get(Mfn(0)).unwrap().references, 2);
    }

    #[test]
    fn the_last_reference_frees() {
        let mut frames = table(1);
        frames.put_page(Mfn(0));
        assert_eq!(frames.get(Mfn(0)), Some(Frame::default()));
    }

    #[test]
    fn what_fits_into_no_word_is_kept_nevertheless() {
        let mut frames = table(1000);
        let many = Frame {
            references: 1 << 30,
            linear: -3,
            ..Frame::new(DomainId(0))
        };
        frames.fill(Mfn(10)..Mfn(2000), many);
        assert_eq!(
            (frames.get(Mfn(999)), frames.get(Mfn(1000))),
            (Some(many), None)
        );
        frames.update(Mfn(999), |frame| frame.linear = 0).unwrap();
        frames
            .update(Mfn(999), |frame| frame.references = 7)
            .unwrap();
        assert_eq!(frames.get(Mfn(999)).unwrap().references, 7);
        assert_eq!(frames.aside.len(), 989);
        frames.fill(Mfn(10)..Mfn(1000), Frame::default());
        assert!(frames.aside.is_empty());
    }
}

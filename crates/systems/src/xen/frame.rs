//! Machine frames: who owns one, how many refer to it, and as what it is used.
//!
//! Xen keeps this in `struct page_info` (xen/arch/x86/include/asm/mm.h, 4.17): `count_info` and `type_info` pack what
//! is a field each here. Source of the functions: xen/arch/x86/mm.c, `get_page`, `page_get_owner_and_reference`,
//! `put_page`.

use pagetoll_units::Mfn;

use super::domain::DomainId;
use crate::x86::Level;

/// As what a frame is used, which excludes every other use.
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

/// What Xen knows of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its owner, while it is in use.
    pub owner: Option<DomainId>,
    /// References, with the one for being allocated (`PGC_count_mask`). 0: not in use by any domain.
    pub references: u32,
    /// It is part of Xen's heap, though a domain may own it (`PGC_xen_heap`).
    pub xen_heap: bool,
    /// Its use, or its last use when `type_count` is 0.
    pub page_type: PageType,
    /// Uses as that (`PGT_count_mask`).
    pub type_count: u32,
    /// Whether it was checked for that use (`PGT_validated`).
    pub validated: bool,
    /// Whether a guest pinned it to that use (`PGT_pinned`).
    pub pinned: bool,
    /// Tables of the same level that it refers to, or, negative, that refer to it.
    pub linear: i16,
}

impl Frame {
    /// A frame of a domain's own, with the reference for being allocated.
    #[must_use]
    pub fn of(owner: DomainId) -> Self {
        Self {
            owner: Some(owner),
            references: 1,
            ..Self::default()
        }
    }
}

/// All frames that there are, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTable {
    frames: Vec<Frame>,
}

impl FrameTable {
    /// A table of frames that nobody owns.
    #[must_use]
    pub fn new(frames: usize) -> Self {
        Self {
            frames: vec![Frame::default(); frames],
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Mfn, &Frame)> {
        (0..).map(Mfn).zip(&self.frames)
    }

    /// What is known of a frame; `None` for one that does not exist (`mfn_valid`).
    #[must_use]
    pub fn get(&self, mfn: Mfn) -> Option<&Frame> {
        self.frames.get(usize::try_from(mfn.0).ok()?)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, mfn: Mfn) -> Option<&mut Frame> {
        self.frames.get_mut(usize::try_from(mfn.0).ok()?)
    }

    /// Takes a reference, whoever the owner is, and tells the owner. `None`: the frame does not exist or is not in use.
    pub fn take_reference(&mut self, mfn: Mfn) -> Option<DomainId> {
        let frame = self.get_mut(mfn)?;
        if frame.references == 0 {
            return None;
        }
        frame.references += 1;
        frame.owner
    }

    /// Takes a reference if the frame belongs to this domain (`get_page_from_mfn`).
    pub fn get_page(&mut self, mfn: Mfn, domain: DomainId) -> bool {
        let is_own = self.get(mfn).is_some_and(|f| f.owner == Some(domain));
        is_own && self.take_reference(mfn).is_some()
    }

    /// Gives a reference back; the last one frees the frame.
    ///
    /// # Panics
    /// When there is no reference to give back, which would be a mistake in this crate.
    pub fn put_page(&mut self, mfn: Mfn) {
        let frame = self.get_mut(mfn).filter(|frame| frame.references > 0);
        let Some(frame) = frame else {
            panic!("{mfn}: a reference was given back that nobody held");
        };
        frame.references -= 1;
        if frame.references == 0 {
            *frame = Frame::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_in_use_and_of_the_own_domain_are_to_be_had() {
        let mut frames = FrameTable::new(2);
        *frames.get_mut(Mfn(0)).unwrap() = Frame::of(DomainId(3));
        assert!(frames.get_page(Mfn(0), DomainId(3)));
        assert!(!frames.get_page(Mfn(0), DomainId(4)));
        assert!(!frames.get_page(Mfn(1), DomainId(3)));
        assert!(!frames.get_page(Mfn(2), DomainId(3)));
        assert_eq!(frames.get(Mfn(0)).unwrap().references, 2);
    }

    #[test]
    fn the_last_reference_frees() {
        let mut frames = FrameTable::new(1);
        *frames.get_mut(Mfn(0)).unwrap() = Frame::of(DomainId(3));
        frames.put_page(Mfn(0));
        assert_eq!(frames.get(Mfn(0)), Some(&Frame::default()));
    }
}

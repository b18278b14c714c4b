//! State of a frame in one word, so that a tebibyte of frames that are alike takes little room.
//!
//! Nothing to Xen's own layout of `count_info` and `type_info`. 0 is a frame without an owner.

use super::domain::DomainId;
use super::frame::{Frame, PageType};
use crate::x86::Level;

/// Bits of each count.
const COUNT: u32 = 21;
const COUNT_END: u32 = 1 << COUNT;
/// First bit of each part.
const TYPE_COUNT: u32 = COUNT;
const OWNER: u32 = TYPE_COUNT + COUNT;
const OWNER_END: u64 = 1 << 15;
const TYPE: u32 = OWNER + 15;
const VALIDATED: u64 = 1 << (TYPE + 3);
const PINNED: u64 = VALIDATED << 1;
const XEN_HEAP: u64 = VALIDATED << 2;

/// The word of a frame that fits into none.
pub(super) const ASIDE: u64 = VALIDATED << 3;

/// Uses by their numbers; the last is no number of any.
const TYPES: [PageType; 8] = [
    PageType::None,
    PageType::Table(Level::L1),
    PageType::Table(Level::L2),
    PageType::Table(Level::L3),
    PageType::Table(Level::L4),
    PageType::SegmentDescriptors,
    PageType::Writable,
    PageType::None,
];

/// A frame as a word; `None` for one whose counts are too great, or that is part of a linear page table.
#[inline]
pub(super) fn pack(frame: Frame) -> Option<u64> {
    let owner = frame.owner.map_or(0, |owner| u64::from(owner.0) + 1);
    let fits = frame.linear == 0
        && frame.references < COUNT_END
        && frame.type_count < COUNT_END
        && owner < OWNER_END;
    let flag = |set: bool, bit: u64| if set { bit } else { 0 };
    fits.then_some(
        u64::from(frame.references)
            | u64::from(frame.type_count) << TYPE_COUNT
            | owner << OWNER
            | number(frame.page_type) << TYPE
            | flag(frame.validated, VALIDATED)
            | flag(frame.pinned, PINNED)
            | flag(frame.xen_heap, XEN_HEAP),
    )
}

/// The frame of a word.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "each part is masked")]
pub(super) fn unpack(word: u64) -> Frame {
    let count = |shift: u32| (word >> shift) as u32 & (COUNT_END - 1);
    let owner = (word >> OWNER & (OWNER_END - 1)) as u16;
    Frame {
        owner: owner.checked_sub(1).map(DomainId),
        references: count(0),
        xen_heap: word & XEN_HEAP != 0,
        page_type: TYPES[(word >> TYPE & 7) as usize],
        type_count: count(TYPE_COUNT),
        validated: word & VALIDATED != 0,
        pinned: word & PINNED != 0,
        linear: 0,
    }
}

#[inline]
const fn number(page_type: PageType) -> u64 {
    match page_type {
        PageType::None => 0,
        PageType::Table(level) => level as u64,
        PageType::SegmentDescriptors => 5,
        PageType::Writable => 6,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn frame()(
            owner in prop::option::of(any::<u16>()),
            counts in (0..COUNT_END + 2, 0..COUNT_END + 2),
            kind in 0..7usize,
            flags in any::<[bool; 3]>(),
            linear in prop_oneof![9 => Just(0), 1 => any::<i16>()],
        ) -> Frame {
            Frame {
                owner: owner.map(DomainId),
                references: counts.0,
                type_count: counts.1,
                page_type: TYPES[kind],
                validated: flags[0],
                pinned: flags[1],
                xen_heap: flags[2],
                linear,
            }
        }
    }

    proptest! {
        #[test]
        fn a_word_is_the_frame_again(frame in frame()) {
            match pack(frame) {
                Some(word) => {
                    prop_assert_eq!(unpack(word), frame);
                    prop_assert_ne!(word, ASIDE);
                }
                None => prop_assert!(
                    frame.linear != 0
                        || frame.references >= COUNT_END
                        || frame.type_count >= COUNT_END
                        || frame.owner.is_some_and(|owner| owner.0 >= 0x7fff)
                ),
            }
        }
    }

    #[test]
    fn a_frame_without_owner_is_0() {
        assert_eq!(pack(Frame::default()), Some(0));
    }
}

//! The guest's programs, whose code is the processor's.

/// Program of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Reads the order, so that it is mapped. No result.
    Warm,
    /// Touches the pages. The result is the sum of what was read. A written page gets its entry of the order as its
    /// second word.
    Touch,
    /// Touches the pages as [`Touch`](Self::Touch) does, and keeps the longest time that one of them took, by the processor's
    /// clock, where its code reads one ([`stall`](crate::arch::stall)).
    TimedTouch,
    /// Writes a word of each page: the content's word 0 to the first entry of the order, and one step more to each after it. An
    /// entry is the offset of the word in bytes. No result.
    Stamp,
    /// Compares every word of every page. The result is the number of pages with a wrong word.
    Verify,
    /// Leaves again and again: does what ends a program, and never ends.
    Leave,
}

impl Program {
    /// All programs.
    pub(crate) const ALL: [Self; 6] = [
        Self::Warm,
        Self::Touch,
        Self::TimedTouch,
        Self::Stamp,
        Self::Verify,
        Self::Leave,
    ];

    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Warm => 0,
            Self::Touch => 1,
            Self::TimedTouch => 2,
            Self::Verify => 3,
            Self::Leave => 4,
            Self::Stamp => 5,
        }
    }
}

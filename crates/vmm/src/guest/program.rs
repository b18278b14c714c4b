//! The guest's programs, whose code is the processor's.

/// Program of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Reads the order, so that it is mapped. No result.
    Warm,
    /// Touches the pages. The result is the sum of what was read. A written page gets its entry of the order as its
    /// second word.
    Touch,
    /// Compares every word of every page. The result is the number of pages with a wrong word.
    Verify,
    /// Leaves again and again: does what ends a program, and never ends.
    Leave,
}

impl Program {
    /// All programs.
    pub(crate) const ALL: [Self; 4] = [Self::Warm, Self::Touch, Self::Verify, Self::Leave];

    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Warm => 0,
            Self::Touch => 1,
            Self::Verify => 2,
            Self::Leave => 3,
        }
    }
}

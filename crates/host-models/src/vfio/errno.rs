//! Errors of the kernel.

/// An error number: include/uapi/asm-generic/errno-base.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// There is no such mapping.
    NoEnt,
    /// No memory may be locked any more.
    NoMem,
    /// There is no memory at an address, or not with that access.
    Fault,
    /// Something is mapped there already.
    Exist,
    /// The argument is invalid.
    Inval,
    /// No mapping is available any more.
    NoSpc,
}

impl Errno {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::NoEnt => 2,
            Self::NoMem => 12,
            Self::Fault => 14,
            Self::Exist => 17,
            Self::Inval => 22,
            Self::NoSpc => 28,
        }
    }
}

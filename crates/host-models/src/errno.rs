//! Errors of the kernel's memory calls: mappings, userfaultfds, memslots.

/// An error number: include/uapi/asm-generic/errno-base.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// Not allowed.
    Perm,
    /// There is no such thing there.
    NoEnt,
    /// No such descriptor.
    BadF,
    /// Not now, or not all of it.
    Again,
    /// Not all of it is memory.
    NoMem,
    /// Memory cannot be reached.
    Fault,
    /// The resource has another owner.
    Busy,
    /// Something is there already.
    Exist,
    /// The argument is invalid.
    Inval,
}

impl Errno {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Perm => 1,
            Self::NoEnt => 2,
            Self::BadF => 9,
            Self::Again => 11,
            Self::NoMem => 12,
            Self::Fault => 14,
            Self::Busy => 16,
            Self::Exist => 17,
            Self::Inval => 22,
        }
    }
}

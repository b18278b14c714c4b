//! The errors that a PV guest can be answered with. Source: xen/include/public/errno.h, 4.17.

/// Error of a hypercall, by Xen's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Errno {
    /// Not permitted to this domain.
    Eperm = 1,
    /// No such domain.
    Esrch = 3,
    /// Guest memory that cannot be read or written.
    Efault = 14,
    /// Cache attributes of a frame that Xen itself uses.
    Eacces = 13,
    /// The frame is not available, or not with that type.
    Ebusy = 16,
    /// An argument is invalid.
    Einval = 22,
    /// No such command.
    Enosys = 38,
    /// A command that there was.
    Eopnotsupp = 95,
}

impl Errno {
    /// Return value of the hypercall.
    #[must_use]
    pub const fn code(self) -> i64 {
        -(self as i64)
    }
}

//! Tables of names in scripts and answers, with their values.

/// Names, each once, with their values.
pub(crate) struct Names<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Names<T> {
    /// Value of a name.
    pub(crate) fn find(&self, name: &str) -> Option<T> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    /// Value of a name; else a problem that lists the known names.
    pub(crate) fn one_of(&self, what: &str, name: &str) -> Result<T, String> {
        self.find(name)
            .ok_or_else(|| format!("{what} '{name}': expected one of {}", self.listed()))
    }

    /// The name of a value.
    pub(crate) fn name(&self, value: T) -> Option<&'static str> {
        let found = self.0.iter().find(|(_, known)| *known == value);
        found.map(|(name, _)| *name)
    }

    pub(crate) fn listed(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

impl Names<u64> {
    /// Names of the bits that are set, separated by blanks.
    pub(crate) fn bit_names(&self, bits: u64) -> String {
        let set = self.0.iter().filter(|(_, bit)| bits & bit != 0);
        set.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }
}

/// Linux's error numbers: include/uapi/asm-generic/errno-base.h, errno.h.
const ERRNOS: Names<i32> = Names(&[
    ("ok", 0),
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EINTR", 4),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EINVAL", 22),
    ("ENOTTY", 25),
    ("ENOSPC", 28),
    ("EOVERFLOW", 75),
]);

/// The name of one of Linux's errors.
pub(crate) fn errno_name(errno: i32) -> String {
    let known = ERRNOS.name(errno);
    known.map_or_else(|| format!("errno {errno}"), str::to_owned)
}

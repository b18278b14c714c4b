//! Names in scripts and answers, and what they stand for.

/// Names, each once, and what they stand for.
pub(crate) struct Names<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Names<T> {
    /// What a name stands for.
    pub(crate) fn find(&self, name: &str) -> Option<T> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    /// What a name stands for; else the problem, with the names that there are.
    pub(crate) fn one_of(&self, what: &str, name: &str) -> Result<T, String> {
        self.find(name)
            .ok_or_else(|| format!("{what} '{name}': expected one of {}", self.listed()))
    }

    /// The name of a value.
    pub(crate) fn of(&self, value: T) -> Option<&'static str> {
        let found = self.0.iter().find(|(_, known)| *known == value);
        found.map(|(name, _)| *name)
    }

    pub(crate) fn listed(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

impl Names<u64> {
    /// The names of the bits that are set, with a blank between them.
    pub(crate) fn of_bits(&self, bits: u64) -> String {
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
    let known = ERRNOS.of(errno);
    known.map_or_else(|| format!("errno {errno}"), str::to_owned)
}

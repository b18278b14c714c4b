//! Kinds of guest memory, and the hugetlb pages that some of them take.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::LiveError;

/// What the guest's memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Private anonymous memory, in pages of 4 KiB.
    Anonymous,
    /// Shared memory (a memfd).
    Shmem,
    /// Private anonymous memory that asks for transparent huge pages (`MADV_HUGEPAGE`).
    Thp,
    /// hugetlb pages of 2 MiB.
    Hugetlb2m,
    /// hugetlb pages of 1 GiB.
    Hugetlb1g,
}

impl Memory {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Anonymous,
        Self::Shmem,
        Self::Thp,
        Self::Hugetlb2m,
        Self::Hugetlb1g,
    ];

    /// Its name in orders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Shmem => "shmem",
            Self::Thp => "thp",
            Self::Hugetlb2m => "hugetlb-2m",
            Self::Hugetlb1g => "hugetlb-1g",
        }
    }

    /// The page size that faults are resolved in, in bytes.
    #[must_use]
    pub const fn page_size(self) -> u64 {
        match self {
            Self::Anonymous | Self::Shmem | Self::Thp => 4096,
            Self::Hugetlb2m => 2 << 20,
            Self::Hugetlb1g => 1 << 30,
        }
    }

    /// Whether it is made of hugetlb pages.
    #[must_use]
    pub const fn is_hugetlb(self) -> bool {
        matches!(self, Self::Hugetlb2m | Self::Hugetlb1g)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the kernel shows its hugetlb pages of this size.
pub(crate) fn hugepages_folder(kind: Memory) -> String {
    format!(
        "/sys/kernel/mm/hugepages/hugepages-{}kB",
        kind.page_size() / 1024
    )
}

/// hugetlb pages that are neither used nor promised; `None` where there is no such size.
pub(crate) fn free_hugepages(kind: Memory) -> Option<u64> {
    let read = |file: &str| -> Option<u64> {
        fs::read_to_string(Path::new(&hugepages_folder(kind)).join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    Some(read("free_hugepages")?.saturating_sub(read("resv_hugepages")?))
}

/// Refuses an order whose hugetlb pages are not there, or that no kernel here pages.
pub(crate) fn require_hugepages(kind: Memory, bytes: u64) -> Result<(), LiveError> {
    let needed = bytes / kind.page_size();
    match free_hugepages(kind) {
        Some(free) if free >= needed => Ok(()),
        Some(free) => Err(LiveError::environment(
            format!("{needed} hugetlb pages are needed for --memory {kind}, {free} are free"),
            format!(
                "echo N > {}/nr_hugepages with at least {needed} more than are used, as root",
                hugepages_folder(kind)
            ),
        )),
        None => Err(LiveError::environment(
            format!("the kernel has no hugetlb pages for --memory {kind}"),
            "order another --memory",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugetlb_pages_that_are_not_there_are_refused_with_the_way_to_get_them() {
        let error = require_hugepages(Memory::Hugetlb2m, 1 << 60).unwrap_err();
        assert!(
            error.to_string().contains("nr_hugepages") || error.to_string().contains("no hugetlb")
        );
        assert_eq!(error.exit_code(), 3);
    }
}

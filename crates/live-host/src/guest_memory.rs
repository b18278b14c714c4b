//! Kinds of guest memory, and the hugetlb pages that some of them take.

use std::fs;
use std::path::Path;

use pagetoll_bill::spec::MemoryKind;
use pagetoll_vmm::Backing;

use crate::LiveError;

/// The page size that faults are resolved in, in bytes.
pub const fn page_size(kind: MemoryKind) -> u64 {
    match kind {
        MemoryKind::Anonymous | MemoryKind::Shmem | MemoryKind::Thp => 4096,
        MemoryKind::Hugetlb2m => 2 << 20,
        MemoryKind::Hugetlb1g => 1 << 30,
    }
}

/// Maps memory for a guest of this many vCPUs and pages for each.
///
/// # Errors
/// There are too few hugetlb pages, or the memory cannot be mapped.
pub fn map(kind: MemoryKind, vcpus: usize, pages: u64) -> Result<Backing, LiveError> {
    use pagetoll_vmm::MemoryKind as Backed;
    if is_hugetlb(kind) {
        require_hugepages(kind, vcpus as u64 * pages * 4096)?;
    }
    let backed = match kind {
        MemoryKind::Anonymous => Backed::Anonymous,
        MemoryKind::Shmem => Backed::Shmem,
        MemoryKind::Thp => Backed::Thp,
        MemoryKind::Hugetlb2m => Backed::Hugetlb2m,
        MemoryKind::Hugetlb1g => Backed::Hugetlb1g,
    };
    Ok(Backing::new(backed, vcpus, pages)?)
}

/// Returns whether it is taken from the hugetlb pages that the system has set aside.
pub const fn is_hugetlb(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g)
}

/// Folder in which the kernel shows its hugetlb pages of this size.
pub fn hugepages_folder(kind: MemoryKind) -> String {
    format!(
        "/sys/kernel/mm/hugepages/hugepages-{}kB",
        page_size(kind) / 1024
    )
}

/// hugetlb pages that are neither used nor promised; `None` where there is no such size.
pub fn free_hugepages(kind: MemoryKind) -> Option<u64> {
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
pub fn require_hugepages(kind: MemoryKind, bytes: u64) -> Result<(), LiveError> {
    let needed = bytes / page_size(kind);
    match free_hugepages(kind) {
        Some(free) if free >= needed => Ok(()),
        Some(free) => Err(LiveError::environment(
            format!("{needed} hugetlb pages are needed for {kind}, {free} are free"),
            format!(
                "echo N > {}/nr_hugepages with at least {needed} more than are used, as root",
                hugepages_folder(kind)
            ),
        )),
        None => Err(LiveError::environment(
            format!("the kernel has no hugetlb pages for {kind}"),
            "order memory of another kind",
        )),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn hugetlb_pages_that_are_not_there_are_refused_with_the_way_to_get_them() {
        let error = require_hugepages(MemoryKind::Hugetlb2m, 1 << 60).unwrap_err();
        assert!(
            error.to_string().contains("nr_hugepages") || error.to_string().contains("no hugetlb")
        );
        assert_eq!(error.class(), Class::Environment);
    }
}

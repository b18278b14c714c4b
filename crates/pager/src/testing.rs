//! Memory and sources for the tests of several modules.

use std::fs::File;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

use super::{Delivery, Features, GuestRange, MemorySource, Options};

/// A source of `pages` pages, in which each word is its own number and not zero.
pub(crate) fn source(pages: u64) -> MemorySource<Vec<u8>> {
    let words = 1..=pages * 512;
    MemorySource(words.flat_map(u64::to_le_bytes).collect())
}

pub(crate) fn pages(start: u64, count: u64) -> GuestRange {
    GuestRange {
        start: GuestAddress(start * 4096),
        bytes: count * 4096,
    }
}

/// Faults are errors, so that a test which meets one fails instead of sleeping; one page at a time.
pub(crate) const OPTIONS: Options = Options {
    delivery: Delivery::Error,
    mode: super::Mode::Missing,
    batch: 1,
    page_size: 4096,
    sharing: super::Sharing::One,
    retry: super::Retry {
        attempts: 1,
        pause: std::time::Duration::ZERO,
    },
};

pub(crate) fn anonymous(pages: u64) -> GuestMemoryMmap {
    let bytes = usize::try_from(pages * 4096).unwrap();
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)]).unwrap()
}

/// A memfd.
pub(crate) fn memfd(pages: u64) -> File {
    let file = File::from(memfd_create("pagetoll-test", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(pages * 4096).unwrap();
    file
}

/// A mapping of a memfd at guest physical address 0.
pub(crate) fn mapped(file: &File) -> GuestMemoryMmap {
    let bytes = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let part = FileOffset::new(file.try_clone().unwrap(), 0);
    GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), bytes, Some(part))]).unwrap()
}

pub(crate) fn punch_hole(file: &File, range: GuestRange) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, range.start.0, range.bytes).unwrap();
}

/// The first word of a page, which has to be present.
pub(crate) fn word(memory: &GuestMemoryMmap, page: u64) -> u64 {
    memory.read_obj(GuestAddress(page * 4096)).unwrap()
}

/// The first word of a page of [`source`].
pub(crate) const fn content(page: u64) -> u64 {
    page * 512 + 1
}

/// Reason to skip tests of shared memory.
pub(crate) fn no_minor_faults() -> Option<String> {
    match Features::detect() {
        Err(error) => Some(format!("userfaultfd: {error}")),
        Ok(features) if !features.minor_shmem() => Some("no UFFD_FEATURE_MINOR_SHMEM".into()),
        Ok(_) => None,
    }
}

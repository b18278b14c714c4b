//! The paged parts of guest memory, with their place in the guest, in this process and in the source.

#![allow(unsafe_code, reason = "memory is handed over to a userfaultfd")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};
use vm_memory::{
    Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    VolatileSlice,
};

use super::error::PagerError;
use super::guest_pages::{GuestPages, PageState};
use super::shared::SharedUnits;
use super::units::UnitSet;
use super::userfaultfd::{HostRange, Mode, Userfaultfd};

/// A part of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRange {
    /// Guest physical address of the first byte.
    pub start: GuestAddress,
    /// Length in bytes; whole pages.
    pub bytes: u64,
}

impl GuestRange {
    pub(super) fn offset_of(self, address: GuestAddress) -> Option<u64> {
        let offset = address.checked_offset_from(self.start)?;
        (offset < self.bytes).then_some(offset)
    }
}

#[derive(Debug)]
pub(super) struct PagedRange {
    pub(super) guest: GuestRange,
    pub(super) host: HostRange,
    /// Offset of its content in the source.
    pub(super) source_start: u64,
    /// The page size of the memory behind it, in bytes.
    pub(super) unit: u64,
    pub(super) present: UnitSet,
    /// State of memory that is written through a second mapping.
    pub(super) shared: Option<SharedUnits>,
    pub(super) userfaultfd: Arc<Userfaultfd>,
}

impl PagedRange {
    pub(super) fn unit_of(&self, offset: u64) -> usize {
        usize::try_from(offset / self.unit).unwrap_or(usize::MAX)
    }

    /// The number of its units.
    pub(super) fn units(&self) -> usize {
        self.unit_of(self.guest.bytes)
    }

    /// The length of some units in bytes.
    pub(super) fn bytes(&self, units: usize) -> usize {
        usize::try_from(self.unit).map_or(usize::MAX, |unit| unit.saturating_mul(units))
    }

    /// The offset of the content of some units in the source.
    pub(super) const fn source_offset(&self, units: &Range<usize>) -> u64 {
        self.source_start + units.start as u64 * self.unit
    }

    /// The guest physical addresses of some units.
    pub(super) fn guest_range(&self, units: &Range<usize>) -> GuestRange {
        GuestRange {
            start: self
                .guest
                .start
                .unchecked_add(units.start as u64 * self.unit),
            bytes: units.len() as u64 * self.unit,
        }
    }

    /// The addresses of some units.
    pub(super) fn host_range(&self, units: &Range<usize>) -> HostRange {
        HostRange {
            start: self.host.start + units.start as u64 * self.unit,
            bytes: units.len() as u64 * self.unit,
        }
    }
}

/// Guest memory of which some ranges are paged. What is not paged is present.
#[derive(Debug)]
pub(super) struct PagedMemory {
    pub(super) memory: GuestMemoryMmap,
    pub(super) ranges: Vec<PagedRange>,
}

impl PagedMemory {
    /// The paged range of an address, and the offset in it.
    pub(super) fn find(&self, address: GuestAddress) -> Option<(&PagedRange, u64)> {
        self.ranges
            .iter()
            .find_map(|range| Some((range, range.guest.offset_of(address)?)))
    }

    /// The paged range of an address of this process, and the offset in it.
    pub(super) fn find_host(&self, address: u64) -> Option<(&PagedRange, u64)> {
        self.ranges.iter().find_map(|range| {
            let offset = address.checked_sub(range.host.start)?;
            (offset < range.host.bytes).then_some((range, offset))
        })
    }

    /// The units of a part of guest memory, which may lie in several ranges.
    pub(super) fn parts(
        &self,
        part: GuestRange,
    ) -> Result<Vec<(&PagedRange, Range<usize>)>, PagerError> {
        let bad = |why| PagerError::BadRange { range: part, why };
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < part.bytes {
            let found = part
                .start
                .checked_add(done)
                .and_then(|next| self.find(next));
            let (range, offset) = found.ok_or(bad("is not paged, or not all of it"))?;
            let bytes = (range.guest.bytes - offset).min(part.bytes - done);
            if !offset.is_multiple_of(range.unit) || !bytes.is_multiple_of(range.unit) {
                return Err(bad("is not aligned to the page size"));
            }
            parts.push((range, range.unit_of(offset)..range.unit_of(offset + bytes)));
            done += bytes;
        }
        Ok(parts)
    }

    /// The parts that are present, as maximal runs in order of address.
    pub(super) fn present(&self) -> Vec<GuestRange> {
        let runs = self.ranges.iter().flat_map(|range| {
            let runs = range.present.runs();
            runs.into_iter().map(|units| range.guest_range(&units))
        });
        let mut runs: Vec<_> = runs.collect();
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup_by(|next, run| {
            let adjoins = run.start.checked_add(run.bytes) == Some(next.start);
            run.bytes += if adjoins { next.bytes } else { 0 };
            adjoins
        });
        runs
    }

    pub(super) fn register(&self, kinds: &[Mode]) -> Result<(), PagerError> {
        for range in &self.ranges {
            // SAFETY: the range is a mapping that `memory` keeps; this pager is what copes with its faults, and its
            // documentation says who may touch the memory.
            let registered = unsafe { range.userfaultfd.register_kinds(range.host, kinds) };
            registered.map_err(PagerError::system("UFFDIO_REGISTER"))?;
        }
        Ok(())
    }
}

/// The addresses of `range` in this process; it has to lie within one region of `memory`.
pub(super) fn host_range(
    memory: &GuestMemoryMmap,
    range: GuestRange,
    unit: u64,
) -> Result<HostRange, PagerError> {
    let bad = |why| PagerError::BadRange { range, why };
    if range.bytes == 0 || !range.bytes.is_multiple_of(unit) {
        return Err(bad("is not a multiple of the page size"));
    }
    let region = memory
        .find_region(range.start)
        .ok_or(bad("is no guest memory"))?;
    let start = region
        .to_region_addr(range.start)
        .ok_or(bad("is no guest memory"))?;
    if region.len() - start.raw_value() < range.bytes {
        return Err(bad("is longer than its region"));
    }
    let host = region
        .get_host_address(start)
        .map_err(|_| bad("is not mapped"))?;
    match host.addr() as u64 {
        host if host % unit == 0 => Ok(HostRange {
            start: host,
            bytes: range.bytes,
        }),
        _ => Err(bad("is not aligned in this process")),
    }
}

/// Reads from a file into memory that other threads and the kernel may see; returns how many bytes.
pub(super) fn read_file(file: &File, offset: u64, target: &VolatileSlice<'_>) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let guard = target.ptr_guard_mut();
    // SAFETY: the guard's bytes are mapped and writable as long as it lives. The kernel writes them by this pointer: no
    // Rust reference to them exists, so that another thread's access to them is no data race of ours.
    let length =
        unsafe { libc::pread(file.as_raw_fd(), guard.as_ptr().cast(), guard.len(), offset) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// Allocates the pages of a mapping all at once, which costs less than a fault for each. Where there is no room, this is
/// an error, and not SIGBUS when they are written.
pub(super) fn allocate(target: &VolatileSlice<'_>) -> Result<(), PagerError> {
    let guard = target.ptr_guard_mut();
    // SAFETY: the guard's bytes are mapped as long as it lives, and keep their content.
    unsafe {
        madvise(
            guard.as_ptr().cast(),
            guard.len(),
            Advice::LinuxPopulateWrite,
        )
    }
    .map_err(PagerError::system("madvise(MADV_POPULATE_WRITE)"))
}

impl GuestPages for PagedMemory {
    fn state(&self, address: GuestAddress) -> PageState {
        match self.find(address) {
            Some((range, offset)) if range.present.has(range.unit_of(offset)) => PageState::Present,
            Some(_) => PageState::Missing,
            None if self.memory.address_in_range(address) => PageState::Present,
            None => PageState::Outside,
        }
    }

    fn read(&self, address: GuestAddress, bytes: &mut [u8]) {
        // The page is present, so that this neither faults nor fails.
        let _ = self.memory.read_slice(bytes, address);
    }
}

/// Gives anonymous memory back.
#[cfg(test)]
pub(super) fn give_back(memory: &GuestMemoryMmap, range: GuestRange) {
    let host = memory.get_host_address(range.start).unwrap();
    let length = usize::try_from(range.bytes).unwrap();
    // SAFETY: the range is a mapping of `memory`, whose bytes no reference borrows.
    unsafe { madvise(host.cast(), length, Advice::LinuxDontNeed) }.unwrap();
}

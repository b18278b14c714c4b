//! The paged parts of guest memory, with their place in the guest, in this process and in the source.

#![allow(unsafe_code, reason = "memory is handed over to a userfaultfd")]

use std::ops::Range;
use std::sync::Arc;

use vm_memory::{
    Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
};

use super::error::PagerError;
use super::guest_pages::{GuestPages, PageState};
use super::present::PresentUnits;
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
    pub(super) source_offset: u64,
    /// The page size of the memory behind it, in bytes.
    pub(super) unit: u64,
    pub(super) present: PresentUnits,
    pub(super) userfaultfd: Arc<Userfaultfd>,
}

impl PagedRange {
    pub(super) fn unit_of(&self, offset: u64) -> usize {
        usize::try_from(offset / self.unit).unwrap_or(usize::MAX)
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

    pub(super) fn register(&self, mode: Mode) -> Result<(), PagerError> {
        for range in &self.ranges {
            // SAFETY: the range is a mapping that `memory` keeps; this pager is what copes with its faults, and its
            // documentation says who may touch the memory.
            let registered = unsafe { range.userfaultfd.register(range.host, mode) };
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

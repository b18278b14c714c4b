//! The memory behind the guest: mapped, untouched where it will be paged.
//!
//! hugetlb pages are taken from those that the system has set aside already and are given back with the mapping; the
//! reservation itself is never changed, so that there is nothing to restore, however this process ends.

#![allow(unsafe_code, reason = "advice about mapped memory")]

use std::fs::File;

use pagetoll_bill::spec::MemoryKind;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::Advice;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

use super::guest::{self, Layout, inaccessible};
use super::memory::{is_hugetlb, require_hugepages};
use crate::LiveError;

/// Bytes of a transparent huge page, and the alignment that it asks for.
const HUGE: u64 = 2 << 20;

/// `MAP_*` of mmap(2) on x86-64 and arm64 (include/uapi/asm-generic/mman.h), for `MmapRegion::build`.
mod map {
    pub(crate) const SHARED: i32 = 0x01;
    pub(crate) const PRIVATE: i32 = 0x02;
    pub(crate) const ANONYMOUS: i32 = 0x20;
    pub(crate) const NORESERVE: i32 = 0x4000;
    pub(crate) const POPULATE: i32 = 0x8000;
    pub(crate) const READ_WRITE: i32 = 0x3;
    pub(crate) const NO_ACCESS: i32 = 0x0;
}

/// Guest memory in one piece here and there, as a memslot maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Guest physical address.
    pub(crate) guest: u64,
    pub(crate) bytes: u64,
    /// Address in this process.
    pub(crate) host: u64,
}

#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) layout: Layout,
    kind: MemoryKind,
    /// What is behind shared memory.
    file: Option<File>,
}

impl Backing {
    /// Maps memory for a guest of this many vCPUs and pages for each.
    pub(crate) fn new(kind: MemoryKind, vcpus: usize, pages: u64) -> Result<Self, LiveError> {
        let mut layout = Layout {
            vcpus,
            pages,
            data: guest::DATA,
        };
        let file = file_for(kind, layout.data_bytes())?;
        let data = map_data(kind, layout, file.as_ref())?;
        // Guest and host addresses are alike modulo a huge page. Where there is room, the paged memory begins at one.
        let base = guest::DATA + data.as_ptr().addr() as u64 % HUGE;
        layout.data = match kind {
            MemoryKind::Anonymous | MemoryKind::Thp => base.next_multiple_of(HUGE),
            MemoryKind::Shmem | MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => base,
        };
        let flags = map::PRIVATE | map::ANONYMOUS | map::POPULATE;
        let boot = build(None, layout.boot_bytes(), flags)?;
        let regions = [(boot, 0), (data, base)].map(|(region, base)| {
            GuestRegionMmap::new(region, GuestAddress(base)).ok_or_else(|| too_large(layout))
        });
        let [boot, data] = regions;
        let memory = GuestMemoryMmap::from_regions(vec![boot?, data?])
            .map_err(|error| LiveError::BadOrder(error.to_string()))?;
        let backing = Self {
            memory,
            layout,
            kind,
            file,
        };
        backing.advise()?;
        layout.write(&backing.memory)?;
        Ok(backing)
    }

    /// The address of the first byte of the paged memory in this process.
    pub(crate) fn data_address(&self) -> Result<u64, LiveError> {
        let data = GuestAddress(self.layout.data);
        let host = self.memory.get_host_address(data);
        Ok(host.map_err(|error| inaccessible(&error))?.addr() as u64)
    }

    fn advise(&self) -> Result<(), LiveError> {
        let advice = match self.kind {
            MemoryKind::Thp => Advice::LinuxHugepage,
            MemoryKind::Anonymous => Advice::LinuxNoHugepage,
            MemoryKind::Shmem | MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => return Ok(()),
        };
        let data = GuestAddress(self.layout.data);
        let start = self
            .memory
            .get_host_address(data)
            .map_err(|error| inaccessible(&error))?;
        let length =
            usize::try_from(self.layout.data_bytes()).map_err(|_| too_large(self.layout))?;
        // SAFETY: the range is within the region that `memory` keeps, and the advice changes no content.
        match unsafe { rustix::mm::madvise(start.cast(), length, advice) } {
            // A kernel without transparent huge pages has none to avoid.
            Err(rustix::io::Errno::INVAL) if self.kind == MemoryKind::Anonymous => Ok(()),
            other => other.map_err(LiveError::system("madvise(MADV_HUGEPAGE)")),
        }
    }

    /// Fills the paged memory through the guest's own mapping.
    pub(crate) fn populate(&self, content: &[u8]) -> Result<(), LiveError> {
        self.memory
            .write_slice(content, GuestAddress(self.layout.data))
            .map_err(|error| inaccessible(&error))
    }

    /// Fills the page cache behind shared memory, and leaves the guest's mapping empty.
    pub(crate) fn fill_page_cache(&self, content: &[u8]) -> Result<(), LiveError> {
        let Some(file) = &self.file else {
            return Err(LiveError::BadOrder(format!(
                "{} has no page cache",
                self.kind
            )));
        };
        let other = build(Some(file), content.len() as u64, map::SHARED)?;
        let other =
            GuestRegionMmap::new(other, GuestAddress(0)).ok_or_else(|| too_large(self.layout))?;
        other
            .write_slice(content, vm_memory::MemoryRegionAddress(0))
            .map_err(|error| inaccessible(&error))
    }

    pub(crate) fn regions(&self) -> impl Iterator<Item = Region> {
        self.memory.iter().map(|region| Region {
            guest: region.start_addr().0,
            bytes: region.len(),
            host: region.as_ptr().addr() as u64,
        })
    }
}

fn too_large(layout: Layout) -> LiveError {
    LiveError::BadOrder(format!(
        "{} B of guest memory are too many",
        layout.data_bytes()
    ))
}

fn file_for(kind: MemoryKind, bytes: u64) -> Result<Option<File>, LiveError> {
    let flags = match kind {
        MemoryKind::Anonymous | MemoryKind::Thp => return Ok(None),
        MemoryKind::Shmem => MemfdFlags::CLOEXEC,
        MemoryKind::Hugetlb2m => MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        MemoryKind::Hugetlb1g => MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
    };
    if is_hugetlb(kind) {
        require_hugepages(kind, bytes)?;
    }
    let file = memfd_create("pagetoll-guest", flags).map_err(LiveError::system("memfd_create"))?;
    rustix::fs::ftruncate(&file, bytes).map_err(LiveError::system("ftruncate of guest memory"))?;
    Ok(Some(File::from(file)))
}

fn map_data(
    kind: MemoryKind,
    layout: Layout,
    file: Option<&File>,
) -> Result<MmapRegion, LiveError> {
    let bytes = layout.data_bytes();
    match kind {
        // Room to begin at a huge page.
        MemoryKind::Anonymous | MemoryKind::Thp => build(
            None,
            bytes + HUGE,
            map::PRIVATE | map::ANONYMOUS | map::NORESERVE,
        ),
        MemoryKind::Shmem => build(file, bytes, map::SHARED | map::NORESERVE),
        // With a reservation: a fault cannot fail.
        MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => build(file, bytes, map::SHARED),
    }
}

/// Reserved addresses that cannot be accessed.
pub(crate) fn nothing(bytes: u64) -> Result<MmapRegion, LiveError> {
    let flags = map::PRIVATE | map::ANONYMOUS | map::NORESERVE;
    build_with(None, bytes, map::NO_ACCESS, flags)
}

fn build(file: Option<&File>, bytes: u64, flags: i32) -> Result<MmapRegion, LiveError> {
    build_with(file, bytes, map::READ_WRITE, flags)
}

fn build_with(
    file: Option<&File>,
    bytes: u64,
    protection: i32,
    flags: i32,
) -> Result<MmapRegion, LiveError> {
    let failed = |error: &dyn std::fmt::Display| LiveError::System {
        operation: format!("mmap of {bytes} B"),
        source: std::io::Error::other(error.to_string()),
    };
    let file = file
        .map(File::try_clone)
        .transpose()
        .map_err(|error| failed(&error))?;
    let file = file.map(|file| FileOffset::new(file, 0));
    let size = usize::try_from(bytes).map_err(|error| failed(&error))?;
    MmapRegion::build(file, size, protection, flags).map_err(|error| failed(&error))
}

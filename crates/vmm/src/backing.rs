//! The memory behind the guest: mapped, untouched where it will be paged.
//!
//! hugetlb pages are taken from those that the system has set aside already and are given back with the mapping; the
//! reservation itself is never changed, so that there is nothing to restore, however this process ends.

#![allow(unsafe_code, reason = "advice about mapped memory")]

use std::fs::File;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

use crate::Error;
use crate::guest::{self, Layout};

/// Bytes of a transparent huge page, and the alignment that it asks for.
const HUGE: u64 = 2 << 20;

/// Kind of the memory that is paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Private anonymous pages of 4 KiB.
    Anonymous,
    /// Shared memory, a memfd.
    Shmem,
    /// Private anonymous memory that asks for transparent huge pages.
    Thp,
    /// hugetlb pages of 2 MiB.
    Hugetlb2m,
    /// hugetlb pages of 1 GiB.
    Hugetlb1g,
}

/// Work of the kernel on mapped memory before it is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Its file is read into the page cache, asynchronously.
    ReadAhead,
    /// Its pages are mapped, to be read (Linux 5.14).
    Map,
}

/// Memory that takes the place of reserved addresses.
#[derive(Clone, Copy, Debug)]
pub enum Placed<'a> {
    /// Private anonymous pages of 4 KiB.
    Anonymous,
    /// Private anonymous memory that asks for transparent huge pages.
    Thp,
    /// A private mapping of a file from its start: what is written is copied.
    PrivateFile(&'a File),
    /// A shared mapping of a file from its start, such as a memfd.
    Shared(&'a File),
}

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

/// Contiguous guest memory, as a memslot maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Guest physical address.
    pub(crate) guest: u64,
    pub(crate) bytes: u64,
    /// Address in this process.
    pub(crate) host: u64,
}

impl Region {
    /// A part of it; `None` where it reaches beyond.
    pub(crate) fn part(self, guest: u64, bytes: u64) -> Option<Self> {
        let offset = guest.checked_sub(self.guest)?;
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then_some(Self {
            guest,
            bytes,
            host: self.host + offset,
        })
    }
}

/// Memory of a guest, with its tables and programs written.
#[derive(Debug)]
pub struct Backing {
    /// The memory by guest physical addresses.
    pub memory: GuestMemoryMmap,
    /// Its parts.
    pub layout: Layout,
    /// The memfd of shared memory.
    file: Option<File>,
}

impl Backing {
    /// Maps memory for a guest of this many vCPUs and pages for each.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn new(kind: MemoryKind, vcpus: usize, pages: u64) -> Result<Self, Error> {
        let mut layout = Layout {
            vcpus,
            pages,
            data: guest::DATA,
        };
        let file = file_for(kind, layout.data_bytes())?;
        let data = map_data(kind, layout, file.as_ref())?;
        // Where there is room, the paged memory begins at a huge page.
        let base = base_of(&data);
        layout.data = match kind {
            MemoryKind::Anonymous | MemoryKind::Thp => base.next_multiple_of(HUGE),
            MemoryKind::Shmem | MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => base,
        };
        Self::over(kind, layout, data, file)
    }

    /// Memory of a guest with this mapping as its paged part.
    fn over(
        kind: MemoryKind,
        layout: Layout,
        data: MmapRegion,
        file: Option<File>,
    ) -> Result<Self, Error> {
        let flags = map::PRIVATE | map::ANONYMOUS | map::POPULATE;
        let boot = build(None, layout.boot_bytes(), flags)?;
        let base = base_of(&data);
        let regions = [(boot, 0), (data, base)].map(|(region, base)| {
            GuestRegionMmap::new(region, GuestAddress(base)).ok_or_else(|| too_large(layout))
        });
        let [boot, data] = regions;
        let memory = GuestMemoryMmap::from_regions(vec![boot?, data?])
            .map_err(|error| Error::Memory(error.to_string()))?;
        let backing = Self {
            memory,
            layout,
            file,
        };
        backing.advise(kind)?;
        layout.write(&backing.memory)?;
        Ok(backing)
    }

    /// Reserves addresses for the paged memory, at a multiple of 2 MiB, which cannot be accessed before memory is
    /// [placed](Self::place) there.
    ///
    /// # Errors
    /// The guest's own memory cannot be mapped.
    pub fn reserved(vcpus: usize, pages: u64) -> Result<Self, Error> {
        let mut layout = Layout {
            vcpus,
            pages,
            data: guest::DATA,
        };
        let data = reserve(layout.data_bytes().next_multiple_of(HUGE) + HUGE)?;
        layout.data = base_of(&data).next_multiple_of(HUGE);
        Self::over(MemoryKind::Anonymous, layout, data, None)
    }

    /// Places memory at the start of the addresses that were reserved.
    ///
    /// # Errors
    /// There are fewer addresses than bytes, or mmap(2) fails.
    pub fn place(&self, bytes: u64, memory: Placed<'_>) -> Result<(), Error> {
        if bytes > self.layout.data_bytes().next_multiple_of(HUGE) {
            return Err(too_large(self.layout));
        }
        let start = self
            .memory
            .get_host_address(GuestAddress(self.layout.data))?
            .cast();
        let length = usize::try_from(bytes).map_err(|error| Error::Memory(error.to_string()))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = match memory {
            Placed::Anonymous | Placed::Thp | Placed::PrivateFile(_) => {
                MapFlags::PRIVATE | MapFlags::NORESERVE
            }
            Placed::Shared(_) => MapFlags::SHARED,
        } | MapFlags::FIXED;
        // SAFETY: the addresses are of the region that `memory` keeps, into which there are no references; what was there
        // could not be accessed, or is replaced as the caller asks.
        let placed = unsafe {
            match memory {
                Placed::Anonymous | Placed::Thp => {
                    rustix::mm::mmap_anonymous(start, length, access, flags)
                }
                Placed::PrivateFile(file) | Placed::Shared(file) => {
                    mmap(start, length, access, flags, file, 0)
                }
            }
        };
        placed.map_err(Error::system("mmap of guest memory"))?;
        match memory {
            Placed::Anonymous => self.advise(MemoryKind::Anonymous),
            Placed::Thp => self.advise(MemoryKind::Thp),
            Placed::PrivateFile(_) | Placed::Shared(_) => Ok(()),
        }
    }

    /// Two views of shared memory that was [placed](Self::place), at the guest's addresses: by the guest's own mapping,
    /// which `self` has to outlive, and by another one.
    ///
    /// # Errors
    /// mmap(2) fails.
    pub fn views(
        &self,
        bytes: u64,
        file: &File,
    ) -> Result<(GuestMemoryMmap, GuestMemoryMmap), Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Memory(error.to_string());
        let start = self
            .memory
            .get_host_address(GuestAddress(self.layout.data))?;
        let size = usize::try_from(bytes).map_err(|error| failed(&error))?;
        let part = file.try_clone().map_err(|error| failed(&error))?;
        let own = MmapRegionBuilder::<()>::new(size)
            .with_mmap_prot(map::READ_WRITE)
            .with_mmap_flags(map::SHARED)
            .with_file_offset(FileOffset::new(part, 0));
        // SAFETY: the caller has placed a shared mapping of as many bytes of this file there.
        let own = unsafe { own.with_raw_mmap_pointer(start) }
            .build()
            .map_err(|error| failed(&error))?;
        let view = |region| {
            let region = GuestRegionMmap::new(region, GuestAddress(self.layout.data));
            let region = region.ok_or_else(|| too_large(self.layout))?;
            GuestMemoryMmap::from_regions(vec![region]).map_err(|error| failed(&error))
        };
        Ok((view(own)?, view(build(Some(file), bytes, map::SHARED)?)?))
    }

    /// Prepares the first bytes of the paged memory.
    ///
    /// # Errors
    /// The errno of madvise(2): `EINVAL` where the kernel does not know the advice.
    pub fn prepare(&self, bytes: u64, preparation: Preparation) -> Result<(), Error> {
        let start = self
            .memory
            .get_host_address(GuestAddress(self.layout.data))?;
        let length = usize::try_from(bytes.min(self.layout.data_bytes()));
        let length = length.map_err(|_| too_large(self.layout))?;
        let (advice, name) = match preparation {
            Preparation::ReadAhead => (Advice::WillNeed, "madvise(MADV_WILLNEED)"),
            Preparation::Map => (Advice::LinuxPopulateRead, "madvise(MADV_POPULATE_READ)"),
        };
        // SAFETY: the range is within the region that `memory` keeps, and the advice changes no content.
        unsafe { rustix::mm::madvise(start.cast(), length, advice) }.map_err(Error::system(name))
    }

    /// The address of the first byte of the paged memory in this process.
    ///
    /// # Errors
    /// The layout is not that of the memory.
    pub fn data_address(&self) -> Result<u64, Error> {
        let data = GuestAddress(self.layout.data);
        let host = self.memory.get_host_address(data);
        Ok(host?.addr() as u64)
    }

    fn advise(&self, kind: MemoryKind) -> Result<(), Error> {
        let advice = match kind {
            MemoryKind::Thp => Advice::LinuxHugepage,
            MemoryKind::Anonymous => Advice::LinuxNoHugepage,
            MemoryKind::Shmem | MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => return Ok(()),
        };
        let data = GuestAddress(self.layout.data);
        let start = self.memory.get_host_address(data)?;
        let length =
            usize::try_from(self.layout.data_bytes()).map_err(|_| too_large(self.layout))?;
        // SAFETY: the range is within the region that `memory` keeps, and the advice changes no content.
        match unsafe { rustix::mm::madvise(start.cast(), length, advice) } {
            // A kernel without transparent huge pages has none to avoid.
            Err(rustix::io::Errno::INVAL) if kind == MemoryKind::Anonymous => Ok(()),
            other => other.map_err(Error::system("madvise(MADV_HUGEPAGE)")),
        }
    }

    /// Fills the paged memory through the guest's own mapping.
    ///
    /// # Errors
    /// There is more content than memory.
    pub fn populate(&self, content: &[u8]) -> Result<(), Error> {
        self.memory
            .write_slice(content, GuestAddress(self.layout.data))
            .map_err(Error::from)
    }

    /// Fills the page cache behind shared memory, and leaves the guest's mapping empty.
    ///
    /// # Errors
    /// The memory is private, or cannot be mapped.
    pub fn fill_page_cache(&self, content: &[u8]) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Err(Error::Memory("private memory has no page cache".into()));
        };
        let other = build(Some(file), content.len() as u64, map::SHARED)?;
        let other =
            GuestRegionMmap::new(other, GuestAddress(0)).ok_or_else(|| too_large(self.layout))?;
        other
            .write_slice(content, vm_memory::MemoryRegionAddress(0))
            .map_err(Error::from)
    }

    /// Its regions: the guest's own, then what is paged.
    pub(crate) fn regions(&self) -> impl Iterator<Item = Region> {
        self.memory.iter().map(|region| Region {
            guest: region.start_addr().0,
            bytes: region.len(),
            host: region.as_ptr().addr() as u64,
        })
    }
}

/// Guest physical address of the paged part: guest and host addresses are alike modulo a huge page.
fn base_of(data: &MmapRegion) -> u64 {
    guest::DATA + data.as_ptr().addr() as u64 % HUGE
}

fn too_large(layout: Layout) -> Error {
    Error::Memory(format!(
        "{} B of guest memory are too many",
        layout.data_bytes()
    ))
}

fn file_for(kind: MemoryKind, bytes: u64) -> Result<Option<File>, Error> {
    let flags = match kind {
        MemoryKind::Anonymous | MemoryKind::Thp => return Ok(None),
        MemoryKind::Shmem => MemfdFlags::CLOEXEC,
        MemoryKind::Hugetlb2m => MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        MemoryKind::Hugetlb1g => MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
    };
    let file = memfd_create("pagetoll-guest", flags).map_err(Error::system("memfd_create"))?;
    rustix::fs::ftruncate(&file, bytes).map_err(Error::system("ftruncate of guest memory"))?;
    Ok(Some(File::from(file)))
}

fn map_data(kind: MemoryKind, layout: Layout, file: Option<&File>) -> Result<MmapRegion, Error> {
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

/// Reserves addresses that cannot be accessed.
///
/// # Errors
/// There are not as many.
pub fn reserve(bytes: u64) -> Result<MmapRegion, Error> {
    let flags = map::PRIVATE | map::ANONYMOUS | map::NORESERVE;
    build_with(None, bytes, map::NO_ACCESS, flags)
}

fn build(file: Option<&File>, bytes: u64, flags: i32) -> Result<MmapRegion, Error> {
    build_with(file, bytes, map::READ_WRITE, flags)
}

fn build_with(
    file: Option<&File>,
    bytes: u64,
    protection: i32,
    flags: i32,
) -> Result<MmapRegion, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::System {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within_its_region() {
        let region = Region {
            guest: 0x1000,
            bytes: 0x3000,
            host: 0x7000,
        };
        let part = Region {
            guest: 0x2000,
            bytes: 0x2000,
            host: 0x8000,
        };
        assert_eq!(region.part(0x2000, 0x2000), Some(part));
        for (guest, bytes) in [(0, 0x1000), (0x2000, 0x3000), (0x2000, u64::MAX)] {
            assert_eq!(region.part(guest, bytes), None, "{bytes:#x} at {guest:#x}");
        }
    }
}

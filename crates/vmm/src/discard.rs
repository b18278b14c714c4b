//! Calls by which a VMM gives memory of its guest back: a balloon's, free page reporting's, virtio-mem's.

#![allow(
    unsafe_code,
    reason = "guest memory is taken away while the guest has it"
)]

use std::fs::File;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use vm_memory::{GuestAddress, GuestMemoryBackend};

use crate::{Backing, Error};

/// A call that discards memory, or says that it could.
#[derive(Clone, Copy, Debug)]
pub enum Discard<'a> {
    /// `madvise(MADV_NORMAL)`, which discards nothing.
    Normal,
    /// `madvise(MADV_DONTNEED)`; of hugetlb since Linux 5.18.
    DontNeed,
    /// `madvise(MADV_FREE)`, of anonymous memory.
    Free,
    /// `mmap(MAP_FIXED)` of anonymous memory in its place.
    MapFixed,
    /// `fallocate(FALLOC_FL_PUNCH_HOLE)` of the file that is mapped from its start as the paged memory.
    PunchHole(&'a File),
    /// `madvise(MADV_REMOVE)`, of shared memory.
    Remove,
}

impl Discard<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "madvise(MADV_NORMAL)",
            Self::DontNeed => "madvise(MADV_DONTNEED)",
            Self::Free => "madvise(MADV_FREE)",
            Self::MapFixed => "mmap(MAP_FIXED)",
            Self::PunchHole(_) => "fallocate(FALLOC_FL_PUNCH_HOLE)",
            Self::Remove => "madvise(MADV_REMOVE)",
        }
    }
}

impl Backing {
    /// Discards a part of the paged memory, from this offset on; the guest may run meanwhile.
    ///
    /// # Errors
    /// The errno of the call: `EINVAL` for memory or a size that it is not for.
    pub fn discard(&self, offset: u64, bytes: u64, how: Discard<'_>) -> Result<(), Error> {
        let within = offset
            .checked_add(bytes)
            .filter(|end| *end <= self.layout.data_bytes());
        let range = within.and(usize::try_from(bytes).ok());
        let length = range.ok_or_else(|| Error::system(how.name())(Errno::INVAL))?;
        let start = GuestAddress(self.layout.data + offset);
        let start = self.memory.get_host_address(start)?.cast();
        let advise = |advice| {
            // SAFETY: the range is within the region that `memory` keeps, into which there are no references; its content is
            // the caller's to lose.
            unsafe { madvise(start, length, advice) }
        };
        let done = match how {
            Discard::Normal => advise(Advice::Normal),
            Discard::DontNeed => advise(Advice::LinuxDontNeed),
            Discard::Free => advise(Advice::LinuxFree),
            Discard::Remove => advise(Advice::LinuxRemove),
            Discard::PunchHole(file) => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, flags, offset, bytes)
            }
            Discard::MapFixed => {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
                // SAFETY: as above; the new mapping ends with the region.
                unsafe { mmap_anonymous(start, length, access, flags) }.map(drop)
            }
        };
        done.map_err(Error::system(how.name()))
    }
}

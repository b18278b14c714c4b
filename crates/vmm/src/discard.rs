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

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use vm_memory::Bytes;

    use super::*;
    use crate::Placed;

    /// Pages that are zero after a discard of the second of four, or the errno.
    fn zero_after(placed: Placed<'_>, how: Discard<'_>) -> Result<Vec<usize>, i32> {
        let backing = Backing::reserved(1, 4).unwrap();
        backing.place(4 * 4096, placed).unwrap();
        backing.populate(&[1; 4 * 4096]).unwrap();
        match backing.discard(4096, 4096, how) {
            Ok(()) => {}
            Err(Error::System { source, .. }) => return Err(source.raw_os_error().unwrap()),
            Err(other) => panic!("{other}"),
        }
        let is_zero = |page: &usize| {
            let address = GuestAddress(backing.layout.data + 4096 * *page as u64);
            let mut bytes = [0; 4096];
            backing.memory.read_slice(&mut bytes, address).unwrap();
            bytes == [0; 4096]
        };
        Ok((0..4).filter(is_zero).collect())
    }

    #[test]
    fn a_call_takes_the_pages_that_it_is_of_and_no_other() {
        let file: OwnedFd = memfd_create("pagetoll-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4 * 4096).unwrap();
        let file = File::from(file);
        let anonymous = |how| zero_after(Placed::Anonymous, how);
        let shared = |how| zero_after(Placed::Shared(&file), how);
        for how in [Discard::DontNeed, Discard::MapFixed] {
            assert_eq!(anonymous(how), Ok(vec![1]), "{how:?}");
        }
        assert_eq!(anonymous(Discard::Normal), Ok(vec![]));
        assert_eq!(anonymous(Discard::Remove), Err(Errno::INVAL.raw_os_error()));
        assert_eq!(shared(Discard::DontNeed), Ok(vec![]), "the file keeps them");
        assert_eq!(shared(Discard::Free), Err(Errno::INVAL.raw_os_error()));
        for how in [Discard::Remove, Discard::PunchHole(&file)] {
            assert_eq!(shared(how), Ok(vec![1]), "{how:?}");
        }
    }

    #[test]
    fn memory_beyond_the_guests_is_refused() {
        let backing = Backing::reserved(1, 4).unwrap();
        for (offset, bytes) in [(3 * 4096, 8192), (u64::MAX, 4096)] {
            let refused = backing.discard(offset, bytes, Discard::DontNeed);
            assert!(refused.is_err(), "{bytes} B at {offset}");
        }
    }
}

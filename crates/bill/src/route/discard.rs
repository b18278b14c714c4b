//! The ways to give memory of a guest back to the host.

use super::mechanism::mechanisms;
use super::{Description, OF_KVM_HOST};
use crate::row::{Backing, Found};

pub(super) const DESCRIPTION: Description = Description {
    summary: "discard memory of a guest, and what that frees and takes away beside",
    examples: "\
Examples:
  pagetoll bill discard
      Each call on memory of each backing, 4 KiB, 64 KiB and 2 MiB at a time: what it frees, and what it takes beside
  pagetoll bill discard --backing memfd --mechanism madv-dontneed,punch-hole
      A balloon on shared memory
  pagetoll bill discard --backing thp --batch 1,512
      Single pages of huge ones, and whole ones
  pagetoll bill discard --on lab --backing anonymous,thp --profile
      Instructions of the host's kernel, exits of the guest, and in which functions they are",
    ..OF_KVM_HOST
};

mechanisms! {
    /// A way to give memory of a guest back to the host.
    Discard {
        /// madvise(MADV_DONTNEED): pages leave the VMM's page tables
        MadvDontneed = "madv-dontneed" { Before, batched, safe, [KvmGuest], [Live, Lab] }
        /// madvise(MADV_FREE): pages are given back once memory is short
        MadvFree = "madv-free" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
        /// anonymous memory is mapped over it (mmap with MAP_FIXED)
        MapFixed = "map-fixed" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
        /// a hole is punched into the file behind it (fallocate with FALLOC_FL_PUNCH_HOLE)
        PunchHole = "punch-hole" { After, batched, safe, [KvmGuest], [Live, Lab] }
        /// madvise(MADV_REMOVE): a hole is punched by the address
        MadvRemove = "madv-remove" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
    }
}

impl Discard {
    /// A call that is known to free memory of this backing: what checks are held against.
    #[must_use]
    pub const fn known_to_free(backing: Backing) -> Self {
        match backing {
            Backing::Anonymous | Backing::Thp | Backing::PrivateFile => Self::MadvDontneed,
            Backing::Memfd | Backing::Hugetlb2m | Backing::GuestMemfd => Self::PunchHole,
        }
    }

    /// Contents that a page of this backing may have after the call, by the call's documentation. A guest with a guest_memfd
    /// sees nothing of what happens to the VMM's mapping of it.
    #[must_use]
    pub const fn promised(self, backing: Backing) -> &'static [Found] {
        match (self, backing) {
            (Self::MadvFree, _) => &[Found::Zeroes, Found::Old],
            (Self::MadvDontneed | Self::MapFixed, Backing::GuestMemfd)
            | (Self::MadvDontneed, Backing::Memfd | Backing::Hugetlb2m) => &[Found::Old],
            (Self::MadvDontneed, Backing::PrivateFile) => &[Found::File],
            (Self::MadvDontneed, Backing::Anonymous | Backing::Thp)
            | (Self::MapFixed | Self::PunchHole | Self::MadvRemove, _) => &[Found::Zeroes],
        }
    }

    /// Limit of the call that memory of this backing meets where the kernel refuses it.
    #[must_use]
    pub const fn limit(self, backing: Backing) -> &'static str {
        match (self, backing) {
            (Self::MadvFree, _) => "it is for private anonymous memory",
            (Self::MadvRemove, _) => "it is for shared mappings that may be written",
            (Self::PunchHole, Backing::Anonymous | Backing::Thp) => "anonymous memory has no file",
            (Self::PunchHole, Backing::PrivateFile) => "the file is open to be read only",
            (_, Backing::Hugetlb2m) => "hugetlb memory goes in whole pages of 2 MiB",
            (Self::MapFixed, _) => "the kernel limits mappings by vm.max_map_count",
            (Self::MadvDontneed | Self::PunchHole, _) => {
                "the kernel does not do it for this memory"
            }
        }
    }
}

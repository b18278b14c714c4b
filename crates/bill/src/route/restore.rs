//! The ways to bring a guest's memory back from an image.

use super::mechanism::mechanisms;
use super::{Description, OF_KVM_HOST};

pub(super) const DESCRIPTION: Description = Description {
    summary: "restore a guest's memory from an image, alone and with clones",
    examples: "\
Examples:
  pagetoll bill restore
      512 MiB by each mechanism, from a warm and a cold page cache: first instruction, working set, last page
  pagetoll bill restore --clones 1,4,16 --pages 32768 --cache warm
      Up to 16 guests from one image of 128 MiB at once, and the memory that each keeps
  pagetoll bill restore --image memory.bin --touch pages.txt
      A memory file of your own, and the pages that its guest touches
  pagetoll bill restore --touch zipf --record pages.txt
      Write the pages that a run touched, to be touched again
  pagetoll bill restore --on lab --profile
      Instructions until each boundary, from a warm page cache, and in which functions they are",
    ..OF_KVM_HOST
};

mechanisms! {
    /// A way to bring a guest's memory back from an image.
    Restore by backend {
        /// the whole image is read into anonymous memory before the guest runs
        Read = "read" { Before, single, safe, [KvmGuest], [Live, Lab] }
        /// the image is mapped privately: the kernel pages it in, and copies what the guest writes
        Map = "map" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// a private mapping, which the kernel is asked to read ahead (MADV_WILLNEED)
        MapWillneed = "map-willneed" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// a private mapping, all of it mapped before the guest runs (MADV_POPULATE_READ)
        MapPopulate = "map-populate" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// a private mapping, mapped by the host and by KVM before the guest runs (KVM_PRE_FAULT_MEMORY)
        KvmPreFault = "kvm-pre-fault" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
        /// userfaultfd: a reader copies missing pages from the image
        Uffd = "uffd" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
        /// userfaultfd, and a thread copies the rest of the image meanwhile
        UffdPrefault = "uffd-prefault" { After, batched, safe, [KvmGuest], [Live] }
        /// a set that another run recorded is copied before the guest runs, the rest as by uffd
        Replay = "replay" { After, batched, safe, [KvmGuest], [Live, Lab] }
        /// the vCPU leaves with EFAULT (UFFD_FEATURE_SIGBUS); its own thread copies the page
        Exit = "exit" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
        /// shared memory: a reader fills the page cache and maps it (UFFDIO_CONTINUE)
        Continue = "continue" { Alternative, batched, safe, [KvmGuest], [Live, Lab] }
        /// userfaultfd: a reader copies missing hugetlb pages of 2 MiB
        Hugetlb2m = "hugetlb-2m" { Alternative, single, safe, [KvmGuest], [Live, Lab] }
    }
}

impl Restore {
    /// Tests for a mechanism that leaves all pages missing until the guest touches them.
    #[must_use]
    pub const fn is_lazy(self) -> bool {
        match self {
            Self::Map
            | Self::MapWillneed
            | Self::Uffd
            | Self::Exit
            | Self::Continue
            | Self::Hugetlb2m => true,
            Self::Read
            | Self::MapPopulate
            | Self::KvmPreFault
            | Self::UffdPrefault
            | Self::Replay => false,
        }
    }
}

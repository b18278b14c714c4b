//! The ways to page a guest's memory in on demand.

use super::mechanism::mechanisms;
use super::{Description, OF_KVM_HOST};

pub(super) const DESCRIPTION: Description = Description {
    summary: "page memory in on demand, by userfaultfd or vCPU exits",
    examples: "\
Examples:
  pagetoll bill demand
      On this host's KVM: one userfaultfd against exits, on 1, 2 and 4 vCPUs
  pagetoll bill demand --vcpus 2 --readers 2 --pin together --memory shmem --faults minor
      Minor faults of shared memory, with a reader on the CPU of each vCPU
  pagetoll bill demand --on sim --costs x86-256-core
      A machine of 256 CPUs, beside what was published of one
  pagetoll bill demand --on lab --kernel fix:kvm-exit-on-missing
      Counted, on a kernel whose memslots can exit on missing pages",
    ..OF_KVM_HOST
};

mechanisms! {
    /// A way to page a guest's memory in on demand.
    Demand by backend {
        /// the host has every page already: what touching costs, and the ceiling of the others
        Populated = "populated" { Baseline, single, safe, [KvmGuest], [Live, Lab, Sim] }
        /// no userfaultfd: the host's kernel fills pages with zeroes as they are touched
        Kernel = "kernel" { Alternative, single, safe, [KvmGuest], [Live, Sim] }
        /// userfaultfd: the vCPU sleeps in the fault, a reader resolves it and wakes the vCPU
        Uffd = "uffd" { Before, batched, safe, [KvmGuest], [Live, Lab, Sim] }
        /// the vCPU leaves with EFAULT (UFFD_FEATURE_SIGBUS); its own thread resolves the fault
        Exit = "exit" { After, batched, safe, [KvmGuest], [Live, Sim] }
        /// the vCPU leaves with KVM_EXIT_MEMORY_FAULT where its memslot asks for it (fix:kvm-exit-on-missing)
        ExitOnMissing = "exit-on-missing" { After, batched, safe, [KvmGuest], [Lab, Sim] }
        /// as exit-on-missing, and its thread maps what it populated (KVM_PRE_FAULT_MEMORY) before it goes back
        ExitPrefault = "exit-prefault" { After, batched, safe, [KvmGuest], [Lab] }
        /// the vCPU leaves at a page that a bitmap of its memslot marks; no userfaultfd (fix:kvm-userfault)
        ExitBitmap = "exit-bitmap" { Alternative, batched, safe, [KvmGuest], [Lab] }
        /// the vCPU leaves a memslot of a closed guest_memfd with the address; the slot is swapped
        ExitGmem = "exit-gmem" { Alternative, batched, safe, [KvmGuest], [Live] }
    }
}

impl Demand {
    /// True where a released kernel is enough; false where it takes a fix.
    #[must_use]
    pub const fn is_stock(self) -> bool {
        match self {
            Self::ExitOnMissing | Self::ExitPrefault | Self::ExitBitmap => false,
            Self::Populated | Self::Kernel | Self::Uffd | Self::Exit | Self::ExitGmem => true,
        }
    }
}

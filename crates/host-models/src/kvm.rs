//! KVM as demand paging sees it: memslots, stage-2 faults, vCPUs that exit or sleep.
//!
//! Source: Linux 6.18, `virt/kvm/kvm_main.c`, `virt/kvm/guest_memfd.c`, `arch/x86/kvm/mmu/mmu.c`; and, where
//! [`Capabilities::exit_on_missing`] is there, the exit-on-missing series: "KVM: Improve KVM + userfaultfd performance
//! via KVM_EXIT_MEMORY_FAULT", version 7 (kvm@vger.kernel.org, 15 February 2024), which no kernel has merged.
//!
//! Functional: a VM's slots are real, stage 2 is filled by faults over a real [`Mm`](crate::mm::Mm), and what
//! the kernel refuses is refused with the same error. Nothing has a cost here.
//!
//! Calls return at once here. On a real kernel a change of slots waits until no vCPU is within `KVM_RUN` holding the old
//! ones (`synchronize_srcu` in `kvm_swap_active_memslots`): a thread that changes slots while a vCPU sleeps in a
//! userfaultfd, and is the one to resolve its fault, waits for ever. No script does.
//!
//! Not here: the guest's own page tables (its addresses are physical), interrupts, asynchronous page faults (which
//! need a local APIC in the kernel), large stage-2 pages, private memory, the dirty ring.

mod case;
mod guest_memfd;
mod memslot;
mod processor;
mod stage2;
mod vcpu;

#[cfg(test)]
mod tests;

pub use case::run;
pub use guest_memfd::{GmemFlags, GmemId};
pub use memslot::{Binding, Memslot, Region, SlotFlags};
pub use processor::Processor;
pub use stage2::{FaultResult, MemoryFault};
pub use vcpu::{Exit, Vcpu};

use std::collections::BTreeMap;

use guest_memfd::GuestMemfd;
use stage2::Translation;

use crate::page_map::PageMap;

/// Capabilities that `KVM_CHECK_EXTENSION` reports, and the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The processor that KVM was built for.
    pub processor: Processor,
    /// A page of a guest_memfd that a slot has already is `EEXIST` to another one, as it is since Linux 7.2; before, it
    /// is `EINVAL` (`kvm_gmem_bind`).
    pub taken_page_exists: bool,
    /// `KVM_CAP_EXIT_ON_MISSING`: slots may ask for exits instead of faults.
    pub exit_on_missing: bool,
}

/// A virtual machine.
#[derive(Clone, Debug, Default)]
pub struct Vm {
    capabilities: Capabilities,
    slots: BTreeMap<u32, Memslot>,
    guest_memfds: Vec<GuestMemfd>,
    /// Stage-2 entries by guest frame.
    stage2: PageMap<Translation>,
}

impl Vm {
    /// A VM without memory.
    #[must_use]
    pub fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            ..Self::default()
        }
    }
}

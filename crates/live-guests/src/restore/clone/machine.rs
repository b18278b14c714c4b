//! The machine of a guest before its memory is there: all that restores have in common.

use std::fs::File;
use std::ops::Range;

use kvm_ioctls::VcpuFd;
use pagetoll_bill::route::Restore;
use pagetoll_vmm::{Backing, Machine, PRE_FAULT, Slots, guest, open_kvm};

use super::super::conversation::CloneOrder;
use super::super::visit::{self, Share};
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::warm::warmed;
use pagetoll_live_host::{LiveError, host};

/// A VM whose vCPUs have run; only the memory of the image is missing.
pub(super) struct Booted {
    pub(super) vcpus: Vec<VcpuFd>,
    pub(super) machine: Machine,
    pub(super) image: File,
    pub(super) shares: Vec<Share>,
    /// The words of an image that was made.
    pub(super) content: Option<Content>,
    bytes: u64,
}

impl Booted {
    pub(super) fn new(order: &CloneOrder, mechanism: Restore) -> Result<Self, LiveError> {
        require(mechanism)?;
        let image = File::open(&order.image).map_err(LiveError::system("open of the image"))?;
        let shares = visit::shares(order);
        let longest = shares.iter().map(|share| share.entries.len() as u64).max();
        let even = order.pages.div_ceil(order.vcpus as u64);
        let backing = Backing::reserved(order.vcpus, longest.unwrap_or(1).max(even))?;
        let layout = backing.layout;
        for (vcpu, share) in shares.iter().enumerate() {
            guest::write(&backing.memory, layout.order_of(vcpu), &share.entries)?;
        }
        let machine = Machine::new(backing, Slots::Boot)?;
        let vcpus: Result<Vec<_>, LiveError> = (0..order.vcpus)
            .map(|number| {
                let entries = shares[number].entries.len() as u64;
                warmed(&machine, number, entries, "restore")
            })
            .collect();
        Ok(Self {
            vcpus: vcpus?,
            machine,
            image,
            shares,
            content: order.words.map(|(first, step)| Content { first, step }),
            bytes: order.pages * 4096,
        })
    }

    /// Another descriptor of the image, at its start.
    pub(super) fn image(&self) -> Result<File, LiveError> {
        self.image
            .try_clone()
            .map_err(LiveError::system("dup of the image"))
    }

    /// Makes the memory that was placed a memslot.
    pub(super) fn set_slot(&self) -> Result<(), LiveError> {
        let data = self.machine.backing().layout.data;
        Ok(self.machine.set_slot(1, data, self.bytes)?)
    }

    /// Addresses of the image's memory in this process.
    pub(super) fn range(&self) -> Result<Range<u64>, LiveError> {
        let start = self.machine.backing().data_address()?;
        Ok(start..start + self.bytes)
    }
}

/// Refuses a mechanism that this host lacks.
fn require(mechanism: Restore) -> Result<(), LiveError> {
    match mechanism {
        Restore::Uffd | Restore::UffdPrefault | Restore::Replay | Restore::Hugetlb2m => {
            host::require_userfaultfd()
        }
        Restore::Continue => host::require_minor_faults(),
        Restore::Exit => {
            host::require_userfaultfd()?;
            host::require_findable_pages()
        }
        Restore::KvmPreFault if open_kvm()?.check_extension_raw(PRE_FAULT) <= 0 => {
            Err(LiveError::environment(
                "KVM_CAP_PRE_FAULT_MEMORY: absent",
                "boot Linux 6.11 or later with two-dimensional paging",
            ))
        }
        Restore::Read
        | Restore::Map
        | Restore::MapWillneed
        | Restore::MapPopulate
        | Restore::KvmPreFault => Ok(()),
    }
}

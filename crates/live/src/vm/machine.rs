//! A VM with the guest's memory, and its vCPUs.

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VcpuFd;

use super::backing::{Backing, Region};
use super::kvm::Vm;
use crate::LiveError;

/// A VM. It keeps its memory as long as it lives.
#[derive(Debug)]
pub(crate) struct Machine {
    // Dropped before the memory that it uses.
    pub(crate) vm: Vm,
    pub(crate) backing: Backing,
}

/// Which regions become memslots at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    All,
    /// Only the guest's own; what is paged gets slots of its own.
    Boot,
}

impl Machine {
    /// A VM over this memory; slot 0 is the guest's own, slot 1 what is paged.
    pub(crate) fn new(backing: Backing, slots: Slots) -> Result<Self, LiveError> {
        let machine = Self {
            vm: Vm::new()?,
            backing,
        };
        for (slot, region) in (0..).zip(machine.backing.regions()) {
            if slot == 0 || slots == Slots::All {
                machine.set_slot(slot, region)?;
            }
        }
        Ok(machine)
    }

    /// Sets a memslot; a region of no bytes deletes it.
    pub(crate) fn set_slot(&self, slot: u32, region: Region) -> Result<(), LiveError> {
        let region = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: region.guest,
            memory_size: region.bytes,
            userspace_addr: region.host,
        };
        // SAFETY: the address is of `backing`, which outlives the VM; there are no references into guest memory.
        let set = unsafe { self.vm.fd.set_user_memory_region(region) };
        set.map_err(LiveError::system(format!(
            "KVM_SET_USER_MEMORY_REGION of slot {slot}"
        )))
    }

    pub(crate) fn vcpu(&self, number: usize) -> Result<VcpuFd, LiveError> {
        self.vm.vcpu(number)
    }
}

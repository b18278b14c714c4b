//! A VM with the guest's memory, and its vCPUs.

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use std::io;
use std::os::fd::AsRawFd;

use kvm_bindings::{
    KVM_MEM_GUEST_MEMFD, kvm_userspace_memory_region, kvm_userspace_memory_region2,
};
use kvm_ioctls::VcpuFd;

use crate::Error;
use crate::backing::{Backing, Region};
use crate::dirty_log::{DirtyLog, Logging};
use crate::kvm::Vm;

/// A VM. It keeps its memory as long as it lives; its vCPUs must not be entered afterwards.
#[derive(Debug)]
pub struct Machine {
    // Dropped before the memory that it uses.
    vm: Vm,
    backing: Backing,
}

/// Regions that become memslots at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// All of the guest's memory.
    All,
    /// The guest's own only; what is paged gets slots of its own.
    Boot,
}

impl Machine {
    /// Makes a VM over this memory; slot 0 is the guest's own, slot 1 what is paged.
    ///
    /// # Errors
    /// There is no KVM, or it refuses a slot.
    pub fn new(backing: Backing, slots: Slots) -> Result<Self, Error> {
        Self::with_dirty_log(backing, slots, DirtyLog::Bitmap)
    }

    /// Makes a VM as [`new`](Self::new) does, whose dirty log has this form; no slot is logged yet.
    ///
    /// # Errors
    /// There is no KVM, it lacks this form, or it refuses a slot.
    pub fn with_dirty_log(backing: Backing, slots: Slots, log: DirtyLog) -> Result<Self, Error> {
        let machine = Self {
            vm: Vm::new()?,
            backing,
        };
        log.enable(&machine.vm)?;
        for (slot, region) in (0..).zip(machine.backing.regions()) {
            if slot == 0 || slots == Slots::All {
                machine.set_region(slot, region, Logging::Off)?;
            }
        }
        Ok(machine)
    }

    /// The VM, whose slots of the guest's memory are set by [`set_slot`](Self::set_slot).
    #[must_use]
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The guest's memory.
    #[must_use]
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Sets the memslot of a part of the guest's memory, which is not logged.
    ///
    /// # Errors
    /// The part is not within one region of the memory, or KVM refuses the slot.
    pub fn set_slot(&self, slot: u32, guest: u64, bytes: u64) -> Result<(), Error> {
        self.set_logged_slot(slot, guest, bytes, Logging::Off)
    }

    /// Sets the memslot of a part of the guest's memory; of a slot that is there, the log begins or ends.
    ///
    /// # Errors
    /// The part is not within one region of the memory, or KVM refuses the slot.
    pub fn set_logged_slot(
        &self,
        slot: u32,
        guest: u64,
        bytes: u64,
        logging: Logging,
    ) -> Result<(), Error> {
        self.set_region(slot, self.part(slot, guest, bytes)?, logging)
    }

    /// The part of the memory that a slot is to map.
    fn part(&self, slot: u32, guest: u64, bytes: u64) -> Result<Region, Error> {
        let mut regions = self.backing.regions();
        let part = regions.find_map(|region| region.part(guest, bytes));
        part.ok_or_else(|| Error::System {
            operation: format!("memslot {slot} of {bytes} B at {guest:#x}"),
            source: io::Error::other("outside the guest's memory"),
        })
    }

    /// Sets the memslot of a part of the guest's memory, whose pages KVM takes from the start of a guest_memfd that is mapped
    /// there.
    ///
    /// # Errors
    /// The part is not within one region of the memory, or KVM refuses the slot.
    pub fn set_guest_memfd_slot(
        &self,
        slot: u32,
        guest: u64,
        bytes: u64,
        file: &impl AsRawFd,
    ) -> Result<(), Error> {
        let part = self.part(slot, guest, bytes)?;
        let region = kvm_userspace_memory_region2 {
            slot,
            flags: KVM_MEM_GUEST_MEMFD,
            guest_phys_addr: part.guest,
            memory_size: part.bytes,
            userspace_addr: part.host,
            guest_memfd: file.as_raw_fd().cast_unsigned(),
            ..Default::default()
        };
        // SAFETY: the address is of `backing`, which outlives the VM; there are no references into guest memory.
        let set = unsafe { self.vm.fd.set_user_memory_region2(region) };
        set.map_err(Error::system(format!(
            "KVM_SET_USER_MEMORY_REGION2 of slot {slot}"
        )))
    }

    /// Deletes a memslot.
    ///
    /// # Errors
    /// There is none.
    pub fn delete_slot(&self, slot: u32) -> Result<(), Error> {
        let none = Region {
            guest: 0,
            bytes: 0,
            host: 0,
        };
        self.set_region(slot, none, Logging::Off)
    }

    fn set_region(&self, slot: u32, region: Region, logging: Logging) -> Result<(), Error> {
        let region = kvm_userspace_memory_region {
            slot,
            flags: logging.flags(),
            guest_phys_addr: region.guest,
            memory_size: region.bytes,
            userspace_addr: region.host,
        };
        // SAFETY: the address is of `backing`, which outlives the VM; there are no references into guest memory.
        let set = unsafe { self.vm.fd.set_user_memory_region(region) };
        set.map_err(Error::system(format!(
            "KVM_SET_USER_MEMORY_REGION of slot {slot}"
        )))
    }

    /// Makes the vCPU of this number, which must not be entered once the machine is dropped.
    ///
    /// # Errors
    /// KVM fails.
    pub fn vcpu(&self, number: usize) -> Result<VcpuFd, Error> {
        self.vm.vcpu(number)
    }
}
